-- Prints what bench reads, once wrk is done. No hook runs while the load does.
done = function(summary, latency, requests)
    local e = summary.errors
    local points = {}
    for i, p in ipairs({50, 75, 90, 99, 99.9, 99.99}) do
        points[i] = string.format("%d", latency:percentile(p))
    end
    points[#points + 1] = string.format("%d", latency.max)
    io.write(string.format(
        '\nBENCH {"duration_us":%d,"requests":%d,"bytes":%d,"errors":%d,"statuses":%d,"latency_us":[%s]}\n',
        summary.duration, summary.requests, summary.bytes,
        e.connect + e.read + e.write + e.timeout, e.status, table.concat(points, ",")))
end
