CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'loaders'), (3, 'mine');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, shortName INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 0, 7, 5, 1);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, category INTEGER, text TEXT, textId INTEGER, domainId INTEGER, globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES
    (1, NULL, 75, NULL, NULL, 3, 4, (70 << 24 | 70)),
    (2, NULL, 33, 8, 'batches', NULL, 4, (70 << 24 | 70)),
    (3, NULL, 33, 8, NULL, 2, NULL, (70 << 24 | 70)),
    (10, 20, 59, 8, 'a', NULL, 4, 71 << 24 | 71),
    (11, 21, 59, 8, 'b', NULL, NULL, (70 << 24 | 70)),
    (12, 22, 59, 9, 'c', NULL, 4, (70 << 24 | 70));
