CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)'), (2, CAST(x'6b65ff72' AS TEXT));
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 0, 7, 1, 70 << 24, 98, 99), (160, 170, 0, 7, 2, 70 << 24, 1, 99), (180, 175, 0, 7, 3, 70 << 24, 2, 2), ('soon', 190, 0, 7, 4, 70 << 24, 2, 2), (9223372036854775807, 5, 0, 7, 5, 70 << 24, 2, 2);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
INSERT INTO NVTX_EVENTS VALUES (10, 20, 59, CAST(x'61ff62' AS TEXT), 70 << 24 | 70, NULL), (30, 40, 59, NULL, 70 << 24 | 70, 97), (50, NULL, 60, 'open', 70 << 24 | 70, NULL), (60, 61, 59, NULL, 70 << 24 | 70, NULL);
