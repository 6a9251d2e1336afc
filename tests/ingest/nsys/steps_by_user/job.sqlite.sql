CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (500, 550, 0, 7, 1, 70 << 24, 1), (560, 570, 0, 7, 2, 70 << 24, 1), (580, 590, 0, 7, 3, 70 << 24, 1);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (50, 55, 70 << 24 | 71, 1, 2), (150, 155, 70 << 24 | 70, 2, 2), (350, 355, 70 << 24 | 70, 3, 2);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, 'iteration 7', 70 << 24 | 70), (10, 90, 59, 'iteration 7', 70 << 24 | 71), (5, 95, 59, 'train_step', 70 << 24 | 70), (120, 200, 60, 'Iteration 8', 70 << 24 | 70), (300, 400, 59, 'evaluate batch 3', 70 << 24 | 70);
