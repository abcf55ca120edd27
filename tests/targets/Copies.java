/** Copies arrays of bytes, and computes logarithms, in the same method. Arguments: none. */
public class Copies {
    static double sum;

    static void work(byte[] from, byte[] to) {
        for (int i = 0; i < 2000; i++) {
            System.arraycopy(from, i % 7, to, i % 13, 4096);
            sum += Math.log(i + to[i % 99]);
        }
    }

    public static void main(String[] arguments) {
        byte[] from = new byte[8192], to = new byte[8192];
        for (int i = 0; i < 20; i++)
            work(from, to);
        System.out.println("ready");
        while (true)
            work(from, to);
    }
}
