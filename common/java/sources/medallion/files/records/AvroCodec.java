package medallion.files.records;

import com.github.luben.zstd.ZstdInputStream;

import org.apache.commons.compress.compressors.bzip2.BZip2CompressorInputStream;
import org.xerial.snappy.Snappy;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.Inflater;
import java.util.zip.InflaterInputStream;

/** Decompresses the blocks of Avro files; what a block becomes is bounded. */
final class AvroCodec {
    /** Most bytes of a block, as it is stored and decompressed. */
    static final int MOST_BYTES = 1 << 26;

    private static final int CHECKSUM_BYTES = 4;

    /** No deflated byte stands for more. */
    private static final long MOST_GROWTH = 1100L;

    private AvroCodec() {}

    static void check(String codec) throws IOException {
        if (!codec.equals("null")
                && !codec.equals("deflate")
                && !codec.equals("snappy")
                && !codec.equals("zstandard")
                && !codec.equals("bzip2")) {
            throw new ContentException("its codec " + codec + " is not read");
        }
    }

    /** How many records a stored block may have; each has a byte at least. */
    static long mostRecords(String codec, int size) {
        if (codec.equals("null")) {
            return (long) size;
        }
        boolean isBounded = codec.equals("deflate") || codec.equals("snappy");
        return isBounded ? size * MOST_GROWTH : (long) MOST_BYTES;
    }

    static byte[] read(String codec, byte[] stored) throws IOException {
        if (codec.equals("null")) {
            return stored;
        }
        if (codec.equals("snappy")) {
            return snappy(stored);
        }
        ByteArrayInputStream from = new ByteArrayInputStream(stored);
        InputStream in;
        if (codec.equals("deflate")) {
            in = new InflaterInputStream(from, new Inflater(true));
        } else if (codec.equals("bzip2")) {
            in = new BZip2CompressorInputStream(from, true);
        } else {
            in = new ZstdInputStream(from);
        }
        try {
            return bounded(in);
        } finally {
            in.close();
        }
    }

    private static byte[] bounded(InputStream in) throws IOException {
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        for (int size = in.read(part); size >= 0; size = in.read(part)) {
            whole.write(part, 0, size);
            refuseLarge(whole.size());
        }
        return whole.toByteArray();
    }

    private static byte[] snappy(byte[] stored) throws IOException {
        int size = stored.length - CHECKSUM_BYTES;
        if (size < 0) {
            throw new ContentException("a block has no checksum");
        }
        refuseLarge(Snappy.uncompressedLength(stored, 0, size));
        byte[] content = Snappy.uncompress(Arrays.copyOf(stored, size));
        CRC32 sum = new CRC32();
        sum.update(content, 0, content.length);
        int given = 0;
        for (int at = size; at < stored.length; at++) {
            given = given << 8 | stored[at] & 0xFF;
        }
        if ((int) sum.getValue() != given) {
            throw new ContentException("a block has another checksum than its content");
        }
        return content;
    }

    private static void refuseLarge(int size) throws IOException {
        if (size > MOST_BYTES) {
            throw new ContentException("a block is longer than " + MOST_BYTES + " bytes");
        }
    }
}
