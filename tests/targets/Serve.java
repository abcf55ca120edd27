import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/** An HTTP server with a pool of four threads. Says on which port; ends when its standard input does. */
public class Serve {
    static final AtomicLong served = new AtomicLong();

    static byte[] body() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 300; i++) text.append(Integer.toHexString(i * 31));
        return text.toString().getBytes();
    }

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 64);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = body();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
            served.incrementAndGet();
        });
        server.start();
        System.out.println("ready port=" + server.getAddress().getPort());
        while (System.in.read() >= 0) {}
        System.out.println("served " + served.get());
        System.exit(0);
    }
}
