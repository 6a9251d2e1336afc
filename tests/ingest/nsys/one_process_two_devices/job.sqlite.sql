CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000'), (3, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)'), (4, 'ncclGroupEnd');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 1, 7, 1, 70 << 24, 1), (110, 160, 0, 7, 2, 70 << 24, 1), (200, 220, 0, 7, 3, 70 << 24, 3), (200, 221, 1, 7, 4, 70 << 24, 3);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (50, 55, 70 << 24 | 70, 1, 2), (60, 65, 70 << 24 | 70, 2, 2), (71, 72, 70 << 24 | 70, 3, 2), (73, 74, 70 << 24 | 70, 4, 2);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER);
INSERT INTO NVTX_EVENTS VALUES (40, 300, 59, 'step 4', 70 << 24 | 70, NULL, 0), (70, 80, 59, NULL, 70 << 24 | 70, 4, 1);
