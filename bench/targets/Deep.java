/** Busy below so many frames: Deep FRAMES. Prints "ready"; ends with its standard input. */
public class Deep {
    static volatile long sink;

    static long descend(int frames, long rounds) {
        if (frames > 0)
            return descend(frames - 1, rounds) + 1;
        long value = 1;
        for (long i = 0; i < rounds; i++)
            value = value * 6364136223846793005L + i;
        sink = value;
        return value;
    }

    public static void main(String[] arguments) throws Exception {
        int frames = Integer.parseInt(arguments[0]) - 2;
        for (int i = 0; i < 20000; i++)
            descend(frames, 10);
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) { }
            Runtime.getRuntime().halt(0);
        });
        end.setDaemon(true);
        end.start();
        System.out.println("ready");
        while (true)
            descend(frames, 1000000);
    }
}
