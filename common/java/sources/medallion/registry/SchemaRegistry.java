package medallion.registry;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import medallion.readers.Declarations;
import medallion.readers.Member;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Writers' schemas of one format by id, from a registry's address or a folder of files with the id
 * as their name. Each schema is fetched once per JVM, while it is among the thousand that were used
 * last. An id without a usable schema is not looked up again for half a minute; its schema may be
 * registered, or repaired, later.
 */
public final class SchemaRegistry {
    /** No schema has this id. */
    public static final Object UNKNOWN = new Object();

    /** This id belongs to something other than a valid schema of the format. */
    public static final Object UNUSABLE = new Object();

    private static final long MISS_NANOS = 30000000000L;
    private static final int MAX_MISSES = 10000;
    private static final int MAX_SCHEMAS = 1000;
    private static final int TRIES = 3;
    private static final int CONNECT_MILLIS = 2000;
    private static final int READ_MILLIS = 5000;
    private static final int MAX_BYTES = 16777216;

    /**
     * The codes by which a registry says that a schema, or a subject or its version, is unknown.
     */
    private static final int NO_SCHEMA = 40403;

    private static final int NO_SUBJECT = 40401;
    private static final int NO_VERSION = 40402;

    private static final ConcurrentHashMap<String, SchemaRegistry> ALL =
            new ConcurrentHashMap<String, SchemaRegistry>();

    private final String place;
    private final String login;
    private final SchemaFormat format;
    private final RecentSchemas found = new RecentSchemas(MAX_SCHEMAS);
    private final ConcurrentHashMap<Integer, Miss> misses = new ConcurrentHashMap<Integer, Miss>();

    private SchemaRegistry(String place, String login, SchemaFormat format) {
        this.place = place;
        this.login = login;
        this.format = format;
    }

    /**
     * The registry of a place for a format, one object per JVM.
     *
     * @param place an http(s) address, or a folder
     * @param login name of the environment variable, or {@code file:} URI of the file, that holds
     *     the login; empty without a login
     * @param format how its schemas are read
     */
    public static SchemaRegistry at(String place, String login, SchemaFormat format) {
        String key = format.kind() + " " + place + " " + login;
        Object known = ALL.get(key);
        if (known == null) {
            String plain = place.endsWith("/") ? place.substring(0, place.length() - 1) : place;
            SchemaRegistry made = new SchemaRegistry(plain, login, format);
            Declarations.makeRoom(ALL);
            known = ALL.putIfAbsent(key, made);
            return known == null ? made : (SchemaRegistry) known;
        }
        return (SchemaRegistry) known;
    }

    /** The schema of an id, as the format makes it; UNKNOWN or UNUSABLE if there is none. */
    public Object schema(int id) {
        Integer key = Integer.valueOf(id);
        Object known = found.get(key);
        if (known != null) {
            return known;
        }
        Object missed = misses.get(key);
        if (missed != null && System.nanoTime() - ((Miss) missed).at < MISS_NANOS) {
            return ((Miss) missed).what;
        }
        Object fetched = fetch(id);
        if (fetched != UNKNOWN && fetched != UNUSABLE) {
            found.put(key, fetched);
            misses.remove(key);
            return fetched;
        }
        if (misses.size() >= MAX_MISSES) {
            misses.clear();
        }
        misses.put(key, new Miss(fetched));
        return fetched;
    }

    /** How many schemas are kept. */
    int kept() {
        return found.size();
    }

    private synchronized Object fetch(int id) {
        Object known = found.get(Integer.valueOf(id));
        if (known != null) {
            return known;
        }
        // Registries assign positive ids; their answer to a request for a negative one is
        // undefined.
        if (id < 0) {
            return UNKNOWN;
        }
        String number = Integer.toString(id);
        if (!place.startsWith("http://") && !place.startsWith("https://")) {
            return fromFile(number);
        }
        JsonNode answer = request("/schemas/ids/" + number);
        if (answer == null) {
            return UNKNOWN;
        }
        if (!format.kind().equals(Member.of(answer, "schemaType").asText("AVRO"))) {
            return UNUSABLE;
        }
        LinkedHashMap<String, String> texts = new LinkedHashMap<String, String>();
        if (!addReferences(answer, texts, 0)) {
            return UNUSABLE;
        }
        texts.put("", Member.of(answer, "schema").asText());
        Object schema = format.ofTexts(texts);
        return schema == null ? UNUSABLE : schema;
    }

    /**
     * Adds the texts of the schemas that an answer refers to, by the names of the references, each
     * behind those that it refers to itself; returns false if one is missing.
     */
    private boolean addReferences(JsonNode answer, LinkedHashMap<String, String> texts, int depth) {
        JsonNode references = Member.of(answer, "references");
        for (JsonNode reference : references) {
            String name = Member.of(reference, "name").asText();
            if (texts.containsKey(name)) {
                continue;
            }
            String subject =
                    URLEncoder.encode(
                            Member.of(reference, "subject").asText(), StandardCharsets.UTF_8);
            JsonNode found =
                    depth > 20
                            ? null
                            : request(
                                    "/subjects/"
                                            + subject
                                            + "/versions/"
                                            + Member.of(reference, "version").asText());
            if (found == null || !addReferences(found, texts, depth + 1)) {
                return false;
            }
            texts.put(name, Member.of(found, "schema").asText());
        }
        return true;
    }

    private Object fromFile(String number) {
        File folder = new File(place);
        if (!folder.isDirectory()) {
            throw new RegistryUnavailable("the folder of schemas " + place + " does not exist");
        }
        File file = new File(folder, number + format.ending());
        if (!file.exists()) {
            return UNKNOWN;
        }
        try {
            Object schema = format.ofFile(Files.readAllBytes(file.toPath()));
            return schema == null ? UNUSABLE : schema;
        } catch (IOException error) {
            throw new RegistryUnavailable(file + " cannot be read");
        }
    }

    /**
     * Requests a path, with retries; null if the registry itself says that it has no such schema.
     */
    private JsonNode request(String path) {
        String why = "";
        for (int i = 0; i < TRIES; i++) {
            try {
                Thread.sleep(200L * i);
                return requestOnce(path);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new RegistryUnavailable(
                        "the request to the schema registry at " + place + " was interrupted");
            } catch (IOException error) {
                String message = error.getMessage();
                why = message == null ? error.getClass().getSimpleName() : message;
            }
        }
        throw new RegistryUnavailable(
                "the schema registry at " + place + " does not answer with a schema: " + why);
    }

    private JsonNode requestOnce(String path) throws IOException {
        HttpURLConnection connection =
                (HttpURLConnection) new URL(place + path + format.query()).openConnection();
        try {
            connection.setConnectTimeout(CONNECT_MILLIS);
            connection.setReadTimeout(READ_MILLIS);
            connection.setUseCaches(false);
            connection.setRequestProperty(
                    "Accept", "application/vnd.schemaregistry.v1+json, application/json");
            if (login.length() > 0) {
                connection.setRequestProperty("Authorization", authorization());
            }
            int code = connection.getResponseCode();
            if (code != 200) {
                int reason = errorCode(connection.getErrorStream());
                if (reason == NO_SCHEMA || reason == NO_SUBJECT || reason == NO_VERSION) {
                    return null;
                }
                throw new IOException(
                        "the answer has status "
                                + code
                                + (reason == 0 ? "" : " and error code " + reason));
            }
            JsonNode answer = new ObjectMapper().readTree(content(connection.getInputStream()));
            if (answer == null || !Member.of(answer, "schema").isTextual()) {
                throw new IOException("the answer is not a schema");
            }
            return answer;
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new IOException("the answer is not a schema");
        } finally {
            connection.disconnect();
        }
    }

    /**
     * The code of an error that the registry itself reports; 0 for any other answer, such as a
     * proxy's page, which says nothing about schemas.
     */
    private static int errorCode(InputStream stream) throws IOException {
        if (stream == null) {
            return 0;
        }
        try {
            JsonNode answer = new ObjectMapper().readTree(content(stream));
            return answer == null ? 0 : Member.of(answer, "error_code").asInt();
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            return 0;
        }
    }

    private static byte[] content(InputStream stream) throws IOException {
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        byte[] part = new byte[8192];
        for (int size = stream.read(part); size >= 0; size = stream.read(part)) {
            whole.write(part, 0, size);
            if (whole.size() > MAX_BYTES) {
                throw new IOException("the answer has more than " + MAX_BYTES + " bytes");
            }
        }
        return whole.toByteArray();
    }

    /** The content of the file that the login names, without the line break at its end. */
    private String fileContent() throws IOException {
        String path = new org.apache.hadoop.fs.Path(login).toUri().getPath();
        try {
            byte[] content = Files.readAllBytes(new File(path).toPath());
            return new String(content, StandardCharsets.UTF_8).trim();
        } catch (IOException unreadable) {
            throw new IOException("the file " + path + " with the registry's login cannot be read");
        }
    }

    /**
     * The header for a login: {@code user:password} as Basic, a text that begins with {@code
     * Bearer} unchanged. The login never appears in a message.
     */
    private String authorization() throws IOException {
        String secret = login.startsWith("file:") ? fileContent() : System.getenv(login);
        if (secret == null || secret.length() == 0) {
            throw new IOException(
                    "environment variable " + login + " with the registry's login is not set");
        }
        String found = secret.trim();
        boolean isBearer = found.startsWith("Bearer ");
        for (int i = 0; i < found.length(); i++) {
            char each = found.charAt(i);
            if (each < ' ' || each == 0x7f || isBearer && each > 0x7f) {
                throw new IOException(
                        "the registry's login in "
                                + login
                                + " has a line break or another character that cannot be sent");
            }
        }
        if (isBearer) {
            return found;
        }
        return "Basic "
                + Base64.getEncoder().encodeToString(found.getBytes(StandardCharsets.UTF_8));
    }

    /** An id without a usable schema, and when it was looked up. */
    private static final class Miss {
        final Object what;
        final long at = System.nanoTime();

        Miss(Object what) {
            this.what = what;
        }
    }
}
