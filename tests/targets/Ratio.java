/** cycle → heavy (3 parts of the work) or light (1 part), as ratio.c does; compiled by HotSpot at once. Ends when its standard
 * input does. */
public class Ratio {
    static volatile boolean stop = false;
    static volatile long sink = 0;

    static long heavy(int n) {
        long state = sink;
        for (int i = 0; i < 3 * n; i++) state = state * 6364136223846793005L + 1442695040888963407L;
        return state;
    }

    static long light(int n) {
        long state = sink;
        for (int i = 0; i < n; i++) state = state * 2862933555777941757L + 3037000493L;
        return state;
    }

    static void cycle() {
        sink += heavy(20000);
        sink += light(20000);
    }

    static void work() {
        while (!stop) cycle();
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < 20000; i++) cycle();
        Thread thread = new Thread(Ratio::work, "work");
        thread.start();
        System.out.println("ready ");
        while (System.in.read() >= 0) {}
        stop = true;
        thread.join();
        System.out.println("done");
    }
}
