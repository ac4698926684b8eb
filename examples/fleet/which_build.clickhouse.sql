-- Which build raised peak memory most over the one before it, and which site did it?
-- For ClickHouse from 18.16 on. Peaks are the medians over the runs of a build. Runs and sites are
-- grouped by hashes of 64 bits, which takes half the time that texts take.
SELECT build, concat(name, ' (', file, ':', toString(line), ')') AS site, raised_by
FROM
(
    SELECT builds[i] AS build, key, peaks[i] - peaks[i - 1] AS raised_by
    FROM
    (
        SELECT
            key,
            groupArray(build) AS builds,
            groupArray(at_peak) AS peaks
        FROM
        (
            SELECT build, key, quantileExact(at_peak_bytes) AS at_peak
            FROM
            (
                SELECT cityHash64(trace) AS run,
                    cityHash64(name, assumeNotNull(file), assumeNotNull(line)) AS key,
                    sum(at_peak_bytes) AS at_peak_bytes
                FROM site_totals FINAL
                WHERE pool = 'default'
                GROUP BY run, key
            )
            ANY INNER JOIN
            (
                SELECT cityHash64(trace) AS run, value AS build FROM labels FINAL WHERE name = 'build'
            ) USING run
            GROUP BY build, key
            ORDER BY key, build
        )
        GROUP BY key
    )
    ARRAY JOIN arrayEnumerate(builds) AS i
    WHERE i > 1
    ORDER BY raised_by DESC
    LIMIT 3
)
ANY INNER JOIN
(
    SELECT cityHash64(of, at, number) AS key, any(of) AS name, any(at) AS file, any(number) AS line
    FROM
    (
        SELECT name AS of, assumeNotNull(file) AS at, assumeNotNull(line) AS number FROM site_totals
    )
    GROUP BY key
) USING key
ORDER BY raised_by DESC
