import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;

/** Threads that wait in many ways, called in many ways, for some milliseconds each. Ends when its standard input does. */
public class Waits {
    interface Wait {
        void run(int ms) throws Exception;
    }

    static volatile boolean stop = false;
    static final LinkedBlockingQueue<Object> empty = new LinkedBlockingQueue<>();
    static final Semaphore none = new Semaphore(0);
    static final Object monitor = new Object();
    static final Object busy = new Object();

    static void receive(int ms) throws Exception {
        try (ServerSocket server = new ServerSocket(0);
                Socket client = new Socket(server.getInetAddress(), server.getLocalPort())) {
            client.setSoTimeout(ms);
            client.getInputStream().read();
        } catch (SocketTimeoutException expected) {
            return;
        }
    }

    static void contend(int ms) throws Exception {
        synchronized (busy) {
            Thread.sleep(ms / 2);
        }
    }

    static void monitorWait(int ms) throws Exception {
        synchronized (monitor) {
            monitor.wait(ms);
        }
    }

    static final Wait[] waits = {
        Thread::sleep,
        ms -> LockSupport.parkNanos(ms * 1_000_000L),
        ms -> empty.poll(ms, TimeUnit.MILLISECONDS),
        ms -> none.tryAcquire(ms, TimeUnit.MILLISECONDS),
        ms -> CompletableFuture.runAsync(() -> LockSupport.parkNanos(ms * 1_000_000L)).get(),
        Waits::monitorWait,
        Waits::contend,
        Waits::receive,
    };

    static int down(int depth, Random random) {
        if (depth == 0) {
            try {
                waits[random.nextInt(waits.length)].run(5 + random.nextInt(45));
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
            return 0;
        }
        switch (random.nextInt(4)) {
            case 0:
                return down(depth - 1, random);
            case 1:
                return IntStream.range(0, 1).map(i -> down(depth - 1, random)).sum();
            case 2:
                synchronized (new Object()) {
                    return down(depth - 1, random) + 1;
                }
            default:
                try {
                    return (int) Waits.class.getDeclaredMethod("down", int.class, Random.class).invoke(null, depth - 1, random);
                } catch (ReflectiveOperationException e) {
                    throw new RuntimeException(e);
                }
        }
    }

    static void run() {
        Random random = new Random();
        while (!stop) down(random.nextInt(12), random);
    }

    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[10];
        for (int i = 0; i < threads.length; i++) (threads[i] = new Thread(Waits::run)).start();
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        for (Thread thread : threads) thread.join();
        System.out.println("done");
    }
}
