<?php
// PHP's streams. Arguments: the address of the gateway, its authority, and the file to send.

[, $base, $authority, $file] = $argv;
$body = file_get_contents($file);

// An open response to a request.
function request(string $path, ?string $body = null) {
    global $base, $authority;
    $http = ['protocol_version' => '1.1', 'ignore_errors' => true, 'timeout' => 60];
    if ($body !== null) {
        $http += ['method' => 'POST', 'content' => $body, 'header' => 'Content-Type: application/octet-stream'];
    }
    return @fopen("$base/$path", 'r', false, stream_context_create(['http' => $http, 'ssl' => ['cafile' => $authority]]));
}

// The status of a response, or why there is none.
function status($response): string {
    if ($response === false) {
        return error_get_last()['message'];
    }
    return explode(' ', stream_get_meta_data($response)['wrapper_data'][0])[1];
}

$response = request('download');
echo 'download ', status($response), ' ', hash('sha256', stream_get_contents($response)), "\n";

$response = request('upload', $body);
echo 'upload ', status($response), ' ', stream_get_contents($response), "\n";

$response = request('stream?php');
$first = trim(fgets($response));
fgets($response);
stream_get_contents(request('go-on?php'));
echo 'stream ', status($response), " $first, ", trim(stream_get_contents($response)), "\n";

foreach (['secret', 'limited', 'conflict'] as $path) {
    echo "$path ", status(request($path, $body)), "\n";
}

if (str_starts_with($base, 'http:')) {
    $socket = stream_socket_client(str_replace('http:', 'tcp:', $base));
    fwrite($socket, "POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody");
    stream_socket_shutdown($socket, STREAM_SHUT_WR);
    [$head, $content] = explode("\r\n\r\n", stream_get_contents($socket));
    echo 'half-close ', explode(' ', $head)[1], " $content\n";
}
