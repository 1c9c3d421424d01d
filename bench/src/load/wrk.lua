-- Prints what bench reads, once wrk is done. No hook runs while the load does. Its time-outs are left
-- out: a request counts as one if wrk was stopped for long while the answer came.
done = function(summary, latency, requests)
    local e = summary.errors
    io.write(string.format(
        '\nBENCH {"requests":%d,"bytes":%d,"errors":%d,"statuses":%d}\n',
        summary.requests, summary.bytes, e.connect + e.read + e.write, e.status))
end
