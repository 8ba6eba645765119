import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonSerializer;
import gateway.ApiClient;
import gateway.ApiResponse;
import gateway.JSON;
import gateway.api.*;
import gateway.model.EmbeddingVector;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Parameter;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;

/** Makes every call of a plan with the client that openapi-generator has generated, and prints what each has come to. */
public final class Drive {
    private static final List<Class<?>> APIS = List.of(
        AdminApi.class, ApiKeysApi.class, AudioApi.class, BatchesApi.class, ChatApi.class, CompletionsApi.class,
        ContainersApi.class, ConversationsApi.class, CreditsApi.class, DeliveriesApi.class, EmbeddingsApi.class, EventsApi.class,
        FilesApi.class, FineTuningApi.class, ImagesApi.class, ModelsApi.class, ModerationsApi.class, PaymentsApi.class, RealtimeApi.class,
        ResponsesApi.class, SkillsApi.class, StorageApi.class, UploadsApi.class, UsageApi.class, VectorStoresApi.class, WebhooksApi.class);

    /** Writes what the client has read; the client's own writer knows no lists among alternatives. */
    private static final Gson WRITER = JSON.getGson().newBuilder()
        .registerTypeAdapter(EmbeddingVector.class,
            (JsonSerializer<EmbeddingVector>) (value, type, context) -> context.serialize(value.getActualInstance()))
        .create();

    private static Method methodOf(String operationId) {
        return APIS.stream()
            .flatMap(api -> Arrays.stream(api.getMethods()))
            .filter(method -> method.getName().equals(operationId + "WithHttpInfo"))
            .findFirst()
            .orElseThrow(() -> new IllegalStateException("there is no method for it"));
    }

    /** A name without what the generator changes in it: `file` is `_file` in Java, `webhook_id` is `webhookId`. */
    private static String plain(String name) {
        return name.replaceAll("[_-]", "").toLowerCase();
    }

    /** The value that a parameter of a generated method is given: a field of the plan, or the whole body. */
    private static JsonElement valueFor(Parameter parameter, JsonObject call) {
        JsonElement body = call.get("body");
        for (JsonElement place : Arrays.asList(call.get("path"), call.get("query"), call.get("header"), body)) {
            if (place == null || !place.isJsonObject() || (place == body && !call.has("files"))) continue;
            for (String name : place.getAsJsonObject().keySet()) {
                if (plain(name).equals(plain(parameter.getName()))) return place.getAsJsonObject().get(name);
            }
        }
        boolean isModel = parameter.getType().getName().startsWith("gateway.model.") && !parameter.getType().isEnum();
        return isModel ? body : null;
    }

    private static File file(JsonElement text) throws IOException {
        File file = Files.createTempFile(new File(".").toPath(), "upload", ".png").toFile();
        Files.writeString(file.toPath(), text.getAsString());
        return file;
    }

    private static Object argument(Parameter parameter, JsonObject call) throws IOException {
        JsonElement value = valueFor(parameter, call);
        if (value == null) return null;
        if (parameter.getType() == File.class) return file(value);
        if (parameter.getParameterizedType().getTypeName().endsWith("<java.io.File>")) {
            return List.of(file(value instanceof JsonArray list ? list.get(0) : value));
        }
        return JSON.getGson().fromJson(value, parameter.getParameterizedType());
    }

    private static void make(ApiClient client, JsonObject call, JsonObject outcome) throws Throwable {
        Method method = methodOf(call.get("operationId").getAsString());
        Object api = method.getDeclaringClass().getConstructor(ApiClient.class).newInstance(client);
        Object[] values = new Object[method.getParameterCount()];
        for (int i = 0; i < values.length; i++) values[i] = argument(method.getParameters()[i], call);
        try {
            ApiResponse<?> response = (ApiResponse<?>) method.invoke(api, values);
            // what is no JSON has no fields
            if (!(response.getData() instanceof File)) outcome.add("parsed", WRITER.toJsonTree(response.getData()));
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }

    public static void main(String[] args) throws IOException {
        JsonObject plan = JsonParser.parseReader(new InputStreamReader(System.in, "UTF-8")).getAsJsonObject();
        ApiClient client = new ApiClient();
        client.setBasePath(plan.get("url").getAsString());
        client.setBearerToken(plan.get("key").getAsString());
        for (JsonElement element : plan.getAsJsonArray("calls")) {
            JsonObject call = element.getAsJsonObject();
            JsonObject outcome = new JsonObject();
            outcome.add("operationId", call.get("operationId"));
            try {
                make(client, call, outcome);
            } catch (Throwable failure) {
                outcome.addProperty("error", failure.toString());
            }
            System.out.println(outcome);
        }
        System.exit(0);
    }
}
