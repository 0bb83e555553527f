package medallion.files.records;

import org.apache.avro.InvalidAvroMagicException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.zip.ZipException;

/** Opens a file of any format, and counts its records. */
public final class OpenFile implements Serializable {
    private static final long serialVersionUID = 1L;

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
        Records records;
        if (format.equals("avro")) {
            records = new AvroRecords(path, conf, cut);
        } else {
            records = lines(path, conf, cut);
        }
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
                || error instanceof InvalidAvroMagicException) {
            return true;
        }
        // Decompressors throw no class of their own.
        return error.getClass() == IOException.class
                && new CompressionCodecFactory(conf).getCodec(path) != null
                && !String.valueOf(error.getMessage()).contains("Input/output error");
    }

    private Records lines(Path path, Configuration conf, long begin) throws IOException {
        CompressionCodec codec = new CompressionCodecFactory(conf).getCodec(path);
        FSDataInputStream file = path.getFileSystem(conf).open(path);
        InputStream in = file;
        if (codec != null) {
            in = codec.createInputStream(file);
        } else if (begin > 0L) {
            file.seek(begin);
        }
        Lines lines = new Lines(in, begin, format.equals("csv"), codec == null);
        if (header && begin == 0L) {
            lines.next();
        }
        return lines;
    }
}
