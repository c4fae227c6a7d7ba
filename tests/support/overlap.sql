-- Of a time line of charl-train --trace: the part of the time of all-reduces in which the device of the rank computed, over all ranks.
-- The time line is cut at the ends of all spans; `way` and `busy` count the spans that are open between two cuts.
WITH
  span AS (
    SELECT slice.ts AS ts, slice.dur AS dur, thread.upid AS upid,
      thread.name LIKE 'all-reduce%' OR thread.name LIKE 'communicate%' AS way
    FROM slice JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
    WHERE thread.name LIKE 'all-reduce%' OR thread.name LIKE 'communicate%' OR thread.name LIKE 'compute%'),
  edge AS (
    SELECT upid, ts AS at, way, 1 - way AS busy FROM span
    UNION ALL SELECT upid, ts + dur AS at, -way AS way, way - 1 AS busy FROM span),
  cut AS (SELECT upid, at, SUM(way) AS way, SUM(busy) AS busy FROM edge GROUP BY upid, at),
  piece AS (
    SELECT LEAD(at) OVER line - at AS dur, SUM(way) OVER line AS way, SUM(busy) OVER line AS busy
    FROM cut WINDOW line AS (PARTITION BY upid ORDER BY at))
SELECT SUM(CASE WHEN way > 0 AND busy > 0 THEN dur ELSE 0 END) * 1.0 / SUM(CASE WHEN way > 0 THEN dur ELSE 0 END) AS hidden
FROM piece
