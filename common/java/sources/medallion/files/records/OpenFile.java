package medallion.files.records;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.BZip2Codec;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.util.ReflectionUtils;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.Locale;
import java.util.zip.ZipException;

/** Opens a file of any format, and counts its records. */
public final class OpenFile implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Names of files that are compressed in a way that is not read. */
    private static final String[] OTHERS = {
        ".7z",
        ".br",
        ".deflate",
        ".lz",
        ".lz4",
        ".lzma",
        ".lzo",
        ".rar",
        ".snappy",
        ".sz",
        ".tar",
        ".tgz",
        ".xz",
        ".z",
        ".zip",
        ".zst",
        ".zstd"
    };

    private final String format;
    private final boolean header;

    /**
     * @param format {@code jsonl}, {@code csv}, {@code parquet} or {@code avro}
     * @param header whether the first line of a CSV file has the names of the columns
     */
    public OpenFile(String format, boolean header) {
        this.format = format;
        this.header = header;
    }

    /** The records of a file from one on, by the nearest cut before it. */
    public Records at(Path path, Configuration conf, long row, long cutRow, long cut)
            throws IOException {
        if (format.equals("parquet")) {
            ParquetRecords records = new ParquetRecords(path, conf);
            records.skip(row);
            return records;
        }
        if (format.equals("avro")) {
            AvroRecords records = new AvroRecords(path, conf, cut);
            records.skip(row - cutRow);
            return records;
        }
        Records records = lines(path, conf, cut);
        long at = cutRow;
        while (at < row && records.next()) {
            at++;
        }
        return records;
    }

    /** The number of records of a file; notes the cuts on the way. */
    public long count(Path path, Configuration conf, Cuts cuts) throws IOException {
        if (format.equals("parquet")) {
            ParquetRecords records = new ParquetRecords(path, conf);
            try {
                return records.count();
            } finally {
                records.close();
            }
        }
        if (format.equals("avro")) {
            return AvroRecords.count(path, conf, cuts);
        }
        Records records = lines(path, conf, 0L);
        try {
            long rows = 0L;
            long place = records.place();
            while (records.next()) {
                cuts.note(rows, place);
                place = records.place();
                rows++;
            }
            return rows;
        } finally {
            records.close();
        }
    }

    /**
     * Whether an error says that a file is not what its name and the declaration say, and not that
     * it could not be read this time.
     */
    public boolean isOfContent(IOException error, Path path, Configuration conf) {
        if (error instanceof EOFException
                || error instanceof ZipException
                || error instanceof ContentException
                || isOfThrift(error)) {
            return true;
        }
        // Decompressors throw no class of their own.
        return error.getClass() == IOException.class
                && codec(path, conf) != null
                && !String.valueOf(error.getMessage()).contains("Input/output error");
    }

    /** Whether the parts of a Parquet file that say where its columns are do not decode. */
    static boolean isOfThrift(Throwable error) {
        for (Throwable at = error; at != null; at = at.getCause()) {
            if (at.getClass().getName().contains(".thrift.")) {
                return true;
            }
        }
        return false;
    }

    /** How the lines of a file are compressed, by its name in any case; null: they are not. */
    private CompressionCodec codec(Path path, Configuration conf) {
        String name = path.getName().toLowerCase(Locale.ROOT);
        if (format.equals("parquet") || format.equals("avro")) {
            return null;
        }
        if (name.endsWith(".gz")) {
            return (CompressionCodec) (Object) ReflectionUtils.newInstance(GzipCodec.class, conf);
        }
        if (name.endsWith(".bz2")) {
            return (CompressionCodec) (Object) ReflectionUtils.newInstance(BZip2Codec.class, conf);
        }
        return null;
    }

    private static void refuseOtherCompression(Path path) throws IOException {
        String name = path.getName().toLowerCase(Locale.ROOT);
        for (int at = 0; at < OTHERS.length; at++) {
            if (name.endsWith(OTHERS[at])) {
                throw new ContentException(
                        "files that end with "
                                + OTHERS[at]
                                + " are not decompressed; .gz and .bz2 are");
            }
        }
    }

    private Records lines(Path path, Configuration conf, long begin) throws IOException {
        refuseOtherCompression(path);
        CompressionCodec codec = codec(path, conf);
        FSDataInputStream file = path.getFileSystem(conf).open(path);
        InputStream in = file;
        if (codec != null) {
            in = codec.createInputStream(file);
        } else if (begin > 0L) {
            file.seek(begin);
        }
        boolean isOpen = false;
        try {
            Lines lines = new Lines(in, begin, format.equals("csv"), codec == null);
            if (header && begin == 0L) {
                lines.next();
            }
            isOpen = true;
            return lines;
        } finally {
            if (!isOpen) {
                in.close();
            }
        }
    }
}
