import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.InputStream;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.util.HexFormat;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * The client of the JDK. Arguments: the address of the gateway, its authority, the file to send, and the version of
 * the protocol.
 */
class Client {
    private final String base;
    private final Path file;
    private final HttpClient client;

    Client(String base, Path authority, Path file, HttpClient.Version version) throws Exception {
        this.base = base;
        this.file = file;
        client = HttpClient.newBuilder().sslContext(trusting(authority)).version(version).build();
    }

    public static void main(String[] arguments) throws Exception {
        HttpClient.Version version = HttpClient.Version.valueOf(arguments[3]);
        new Client(arguments[0], Path.of(arguments[1]), Path.of(arguments[2]), version).run();
    }

    private void run() throws Exception {
        HttpResponse<byte[]> downloaded = client.send(get("download"), BodyHandlers.ofByteArray());
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(downloaded.body());
        say("download", downloaded.statusCode(), HexFormat.of().formatHex(hash));
        HttpResponse<String> uploaded = client.send(post("upload"), BodyHandlers.ofString());
        say("upload", uploaded.statusCode(), uploaded.body());
        stream();
        for (String path : List.of("secret", "limited", "conflict")) {
            try {
                say(path, client.send(post(path), BodyHandlers.ofString()).statusCode());
            } catch (IOException error) {
                say(path, error);
            }
        }
        if (base.startsWith("http:")) {
            halfClose();
        }
    }

    private void stream() throws Exception {
        HttpResponse<InputStream> response = client.send(get("stream?java"), BodyHandlers.ofInputStream());
        BufferedReader reader = new BufferedReader(new InputStreamReader(response.body()));
        String first = reader.readLine();
        reader.readLine();
        client.send(get("go-on?java"), BodyHandlers.discarding());
        say("stream", response.statusCode(), first + ", " + reader.readLine());
        reader.close();
    }

    /** Which the client does not offer. */
    private void halfClose() throws Exception {
        URI address = URI.create(base);
        try (Socket socket = new Socket(address.getHost(), address.getPort())) {
            String request = "POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody";
            socket.getOutputStream().write(request.getBytes());
            socket.shutdownOutput();
            String[] response = new String(socket.getInputStream().readAllBytes()).split("\r\n\r\n");
            say("half-close", response[0].split(" ")[1], response[1]);
        }
    }

    private HttpRequest get(String path) {
        return HttpRequest.newBuilder(URI.create(base + "/" + path)).build();
    }

    private HttpRequest post(String path) throws IOException {
        return HttpRequest.newBuilder(URI.create(base + "/" + path)).POST(BodyPublishers.ofFile(file)).build();
    }

    private static SSLContext trusting(Path authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream input = Files.newInputStream(authority)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(input));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private static void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.isEmpty() ? "" : " ").append(word);
        }
        System.out.println(line);
    }
}
