package medallion.disk;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;

/** The local disk behind Hadoop's newer interface, which Spark's checkpoints use. */
public class LocalFiles extends DelegateToFileSystem {
    private final LocalDisk disk;

    public LocalFiles(URI uri, Configuration configuration) throws IOException, URISyntaxException {
        this(new LocalDisk(), configuration);
    }

    private LocalFiles(LocalDisk disk, Configuration configuration)
            throws IOException, URISyntaxException {
        super(URI.create("file:///"), disk, configuration, "file", false);
        this.disk = disk;
    }

    @Override
    public int getUriDefaultPort() {
        return -1;
    }

    @Override
    public boolean isValidName(String name) {
        return true;
    }

    @Override
    public void renameInternal(Path from, Path to) throws IOException {
        File source = disk.pathToFile(from);
        File target = disk.pathToFile(to);
        if (!source.isFile() || target.isDirectory()) {
            super.renameInternal(from, to);
            return;
        }
        try {
            LocalDisk.link(source, target);
        } catch (java.nio.file.FileAlreadyExistsException taken) {
            throw new FileAlreadyExistsException("File " + to + " already exists");
        }
    }
}
