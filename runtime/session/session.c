/* session.c: the public API. Opening reads the model and turns its ops into ones that have kernels (make_runnable.c);
 * binding checks one input; the first run after a change resolves shapes and plans. Every call here begins with no
 * diagnostics and leaves those of its failure as the session's message. A call that runs out of memory or meets a bug
 * is cut short (recover.h): its work is half done, so the session is lost, and closes. */
#include "session.h"
#include "kernels/queue.h"
#include "compiler/onnx/onnx.h"
#include "compiler/ir/ops.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- messages --------------------------------------------------------------------------------- */

static void enter(tempo_session *s) {
    if (s->shared.device->enter)
        s->shared.device->enter(s->shared.queue);
}

bool rt_begin(tempo_session *s) {
    if (s->lost)
        return false;
    enter(s);
    free(s->message);
    s->message = NULL;
    tc_arena *scratch = s->ctx.arena;
    s->ctx = (tc_ctx){.arena = scratch, .tool = "tempo", .file = s->ctx.file};
    if (scratch && tc_arena_bytes(scratch) == 0)
        return true;
    s->ctx.arena = NULL;
    tc_arena_destroy(scratch);
    s->ctx.arena = tc_arena_create();
    return true;
}

static void close_stream(void *stream) { fclose(stream); }

/* Turns diagnostics into the session's message, and keeps them for rt_add_message. */
static void tell(tempo_session *s) {
    size_t size = 0, n_diags = s->ctx.n_diags;
    FILE *text = open_memstream(&s->message, &size);
    if (!text)
        tc_out_of_memory(1);
    tc_held held;
    tc_hold(&held, close_stream, text);
    tc_diags_print(&s->ctx, text);
    s->ctx.n_diags = n_diags;
    tc_let_go(&held);
    if (fclose(text) != 0)
        tc_out_of_memory(size);
}

tempo_status rt_end(tempo_session *s, tc_recovery *point, tc_status status) {
    if (status != TC_OK && !s->lost)
        tell(s);
    tc_recovery_close(point, &s->owned);
    return (tempo_status)status;
}

tempo_status rt_lose(tempo_session *s) {
    const tc_failure *failure = tc_recovery_failure();
    s->lost = failure->status;
    snprintf(s->why, sizeof s->why, "tempo: %s; hint: close the session, nothing else can be done with it\n",
             failure->text);
    return (tempo_status)s->lost;
}

const char *tempo_message(const tempo_session *s) { return s->lost ? s->why : s->message ? s->message : ""; }

/* --- opening ---------------------------------------------------------------------------------- */

static tc_status seed(tempo_session *s, uint64_t number, uint64_t step);

static tc_status open_queue(tempo_session *s, const rt_device *device, int slots) {
    tk_queue *queue = device->open(tk_queue_threads(s->shared.queue), slots);
    if (!queue)
        return tc_error(&s->ctx, TC_LIMIT, NULL, "out of memory");
    s->shared.device->close(s->shared.queue);
    s->shared.device = device;
    s->shared.queue = queue;
    return TC_OK;
}

/* Workspaces are sized for the number of threads in the file: the arena is the same on every machine. */
static tc_status take_slots(tempo_session *s) {
    int slots;
    TC_TRY(tc_model_threads(&s->ctx, s->model, &slots));
    return slots == tk_queue_slots(s->shared.queue) ? TC_OK : open_queue(s, s->shared.device, slots);
}

/* The device that the caller names replaces the first one. */
static tc_status take_device(tempo_session *s) {
    const rt_device *device;
    if (!s->device_name)
        return TC_OK;
    TC_TRY(rt_find_device(&s->ctx, s->device_name, &device, &s->hooks.device_number));
    return open_queue(s, device, tk_queue_slots(s->shared.queue));
}

static tc_status start_device(tempo_session *s) {
    const rt_device *device = s->shared.device;
    if (device->start)
        TC_TRY(device->start(&s->ctx, s->shared.queue, s->hooks.device_number));
    if (s->tf32 && !device->allow_tf32)
        return tc_error(&s->ctx, TC_UNSUPPORTED, NULL,
                        "device '%s' has no TF32: its products of floats are exact to a "
                        "rounding",
                        device->name);
    if (s->tf32)
        device->allow_tf32(s->shared.queue);
    if (s->no_cudnn && device->leave_cudnn)
        device->leave_cudnn(s->shared.queue);
    return TC_OK;
}

static tc_status allow_draw(tempo_session *s) {
    if (!s->random.ort || s->shared.device->kind == RT_CPU)
        return TC_OK;
    tc_error(&s->ctx, TC_UNSUPPORTED, NULL, "device '%s' does not draw dropout masks as ONNX Runtime does",
             s->shared.device->name);
    tc_hint(&s->ctx, "ONNX Runtime's CPU kernels draw them: compare with those on the CPU");
    return TC_UNSUPPORTED;
}

static tc_status allow_collective(tempo_session *s) {
    if (!s->shared.collective || s->shared.device->host_memory)
        return TC_OK;
    return tc_error(&s->ctx, TC_UNSUPPORTED, NULL,
                    "ranks of this program compute in the host's memory: device '%s' has its own",
                    s->shared.device->name);
}

static tc_status allow_checks(tempo_session *s) {
    if (!s->shared.check_memory || s->shared.device->host_memory)
        return TC_OK;
    return tc_error(&s->ctx, TC_UNSUPPORTED, NULL,
                    "memory is checked on devices that compute in the host's: device '%s' has its own",
                    s->shared.device->name);
}

/* Takes the model over. Inputs come last: with them, the session is open. */
static tc_status take_model(tempo_session *s, tc_model *model) {
    s->model = model;
    s->shared.model = model;
    TC_TRY(take_device(s));
    TC_TRY(allow_checks(s));
    TC_TRY(allow_collective(s));
    TC_TRY(allow_draw(s));
    TC_TRY(take_slots(s));
    TC_TRY(start_device(s));
    TC_TRY(rt_make_runnable(s));
    const tc_graph *graph = s->model->graph;
    s->by_name = tc_map_create(s->arena);
    s->outputs_by_name = tc_map_create(s->arena);
    s->output_types = TC_NEW_ARRAY(s->arena, const char *, (size_t)graph->n_outputs + 1);
    for (uint32_t i = graph->n_outputs; i-- > 0;) { /* of two with one name the first stays */
        s->output_types[i] = tc_type_text(s->arena, graph->outputs[i]->type);
        tc_map_set(s->outputs_by_name, graph->outputs[i]->name, (void *)(uintptr_t)(i + 1));
    }
    rt_input *inputs = TC_NEW_ARRAY(s->arena, rt_input, (size_t)graph->n_inputs + 1);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const tc_value *value = graph->inputs[i];
        inputs[i] = (rt_input){.value = value, .declared = value->type, .type = tc_type_text(s->arena, value->type)};
        tc_map_set(s->by_name, value->name, &inputs[i]);
    }
    s->inputs = inputs;
    if (s->random.pair[0] != 0)
        (void)seed(s, (uint64_t)s->random.pair[0], 0); /* the run reports errors of this */
    return TC_OK;
}

/* The session that is returned where there is no memory for one. It is never written. */
static tempo_session no_session = {.lost = TC_LIMIT, .why = "tempo: error: out of memory: no session could be made\n"};

void rt_close_or_fail(tempo_session *s) {
    bool is_lost = s->lost != TC_OK;
    if (s == &no_session)
        tc_out_of_memory(sizeof *s);
    tempo_close(s);
    if (is_lost)
        tc_recovery_pass_on();
}

static void close_session(void *session) { tempo_close(session); }

static void take_collective(tempo_session *s) {
    const rt_collective *collective = s->hooks.collective;
    if (!collective)
        return;
    s->shared.collective = collective;
    s->shared.rank = collective->rank;
    s->shared.ranks = collective->ranks;
}

static tempo_session *create(const tempo_options *options, const rt_hooks *hooks) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int threads = options && options->threads > 0 ? options->threads : cores > 0 ? (int)cores : 1;
    tempo_session *s = calloc(1, sizeof *s);
    const rt_device *device = hooks && hooks->device ? hooks->device : rt_devices[0];
    tk_queue *queue = device->open(threads, TC_USUAL_THREADS);
    if (!s || !queue) {
        free(s);
        device->close(queue);
        return &no_session;
    }
    tc_hold(&s->held, close_session, s);
    s->shared.device = device;
    s->shared.queue = queue;
    s->device_name = options ? options->device : NULL;
    s->tf32 = options && options->tf32;
    s->no_cudnn = options && options->no_cudnn;
    s->shared.check_memory = options && options->check_memory;
    s->shared.patience = options && options->patience > 0 ? options->patience : RT_PATIENCE;
    s->random.pair[0] = options ? (int64_t)options->seed : 0;
    s->random.ort = options && options->ort_dropout;
    s->hooks = hooks ? *hooks : (rt_hooks){0};
    take_collective(s);
    return s;
}

/* The given model, or else the one in the file. */
static tc_status open_session(tempo_session *s, const char *path, tc_model *model) {
    if (model)
        tc_model_hold(model);
    s->arena = tc_arena_create();
    s->shared.arena = s->arena;
    s->shared.aligned = tc_map_create(s->arena);
    s->shared.resident = tc_map_create(s->arena);
    const char *file = s->ctx.file = tc_arena_strdup(s->arena, path);
    if (!model)
        TC_TRY(tc_read_file(&s->ctx, file, &model));
    return take_model(s, model);
}

static tempo_status call_open(tempo_session *s, const char *path, tc_model *model) {
    RT_CALL(s, open_session(s, path, model));
}

tempo_status rt_open(const char *path, const tempo_options *options, const rt_hooks *hooks,
                     tempo_session **out_session) {
    *out_session = create(options, hooks);
    return call_open(*out_session, path, NULL);
}

tempo_status rt_open_model(tc_model *model, const char *path, const tempo_options *options, const rt_hooks *hooks,
                           tempo_session **out_session) {
    *out_session = create(options, hooks);
    if (*out_session == &no_session)
        tc_model_destroy(model);
    return call_open(*out_session, path, model);
}

tempo_status tempo_open(const char *path, const tempo_options *options, tempo_session **out_session) {
    return rt_open(path, options, NULL, out_session);
}

void tempo_close(tempo_session *s) {
    if (!s || s == &no_session)
        return;
    tc_let_go(&s->held);
    enter(s);
    if (s->lost)
        rt_part(s);
    else
        rt_drop_plans(s);       /* with their memory on the device */
    rt_free_states(&s->shared); /* they are among the objects released next */
    tc_release_all(&s->owned);
    s->shared.device->free(s->shared.queue, s->shared.memory);
    s->shared.device->close(s->shared.queue);
    free(s->message);
    free(s);
}

/* --- inputs and outputs ----------------------------------------------------------------------- */

static void describe(const tc_value *value, const char *type, tempo_info *out_info) {
    *out_info = (tempo_info){.name = value->name,
                             .dtype = (tempo_dtype)tc_value_dtype(value),
                             .type = type,
                             .has_default = value->is_input && value->init != NULL};
}

size_t tempo_input_count(const tempo_session *s) { return s->inputs && !s->lost ? s->model->graph->n_inputs : 0; }
size_t tempo_output_count(const tempo_session *s) { return s->inputs && !s->lost ? s->model->graph->n_outputs : 0; }

int tempo_input(const tempo_session *s, size_t index, tempo_info *out_info) {
    if (index >= tempo_input_count(s))
        return 0;
    describe(s->inputs[index].value, s->inputs[index].type, out_info);
    return 1;
}

int tempo_output_info(const tempo_session *s, size_t index, tempo_info *out_info) {
    if (index >= tempo_output_count(s))
        return 0;
    describe(s->model->graph->outputs[index], s->output_types[index], out_info);
    return 1;
}

rt_input *rt_find_input(const tempo_session *s, const char *name) {
    return s->inputs ? tc_map_get(s->by_name, name) : NULL;
}

tc_status rt_check_tensor(tempo_session *s, const rt_input *input, const tempo_tensor *tensor) {
    const char *name = input->value->name;
    const tc_type *declared = input->declared;
    uint64_t count = 0;
    size_t element = tempo_dtype_size(tensor->dtype);
    if (element == 0 || tensor->rank < 0 || tensor->rank > TC_MAX_RANK ||
        !tc_shape_count(tensor->rank, tensor->dims, &count))
        return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' is bound to a tensor of no valid type or shape",
                        tc_quote(&s->ctx, name));
    if (tensor->bytes != count * element ||
        (tensor->bytes > 0 && (!tensor->data || (uintptr_t)tensor->data % element != 0)))
        return tc_error(&s->ctx, TC_BAD_INPUT, NULL,
                        "input '%s' is bound to %zu bytes, but its shape needs %zu, aligned to %zu",
                        tc_quote(&s->ctx, name), tensor->bytes, (size_t)count * element, element);
    if (declared && (declared->kind != TC_TENSOR ||
                     (declared->dtype != TC_UNDEFINED && (int)declared->dtype != (int)tensor->dtype)))
        return tc_error(&s->ctx, TC_BAD_INPUT, NULL, "input '%s' is of element type %s, but the model takes %s",
                        tc_quote(&s->ctx, name), tempo_dtype_text(tensor->dtype), input->type);
    return TC_OK;
}

static bool same_shape(const rt_input *input, const tempo_tensor *tensor) {
    return input->data && input->dtype == tensor->dtype && input->rank == tensor->rank &&
           (tensor->rank == 0 || memcmp(input->dims, tensor->dims, (size_t)tensor->rank * sizeof *input->dims) == 0);
}

void rt_take_shape(tempo_session *s, rt_input *input, const tempo_tensor *tensor) {
    s->current = s->current && same_shape(input, tensor);
    s->moved = true;
    input->dtype = tensor->dtype;
    input->rank = tensor->rank;
    input->bytes = tensor->bytes;
    if (tensor->rank > 0)
        memcpy(input->dims, tensor->dims, (size_t)tensor->rank * sizeof *input->dims);
}

static tc_status bind(tempo_session *s, const char *name, const tempo_tensor *tensor) {
    static const uint64_t nothing; /* the address of a tensor without elements */
    rt_input *input = rt_find_input(s, name);
    if (!input)
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model has no input '%s'", tc_quote(&s->ctx, name));
    if (input->kept) {
        tc_error(&s->ctx, TC_USAGE, NULL, "input '%s' is kept from run to run", tc_quote(&s->ctx, name));
        tc_hint(&s->ctx, "tempo_set_state changes it");
        return TC_USAGE;
    }
    TC_TRY(rt_check_tensor(s, input, tensor));
    rt_take_shape(s, input, tensor);
    input->data = tensor->bytes > 0 ? tensor->data : &nothing;
    return TC_OK;
}

tempo_status tempo_bind(tempo_session *s, const char *name, const tempo_tensor *tensor) {
    RT_CALL(s, bind(s, name, tensor));
}

static tc_status seed(tempo_session *s, uint64_t number, uint64_t step) {
    s->random.pair[0] = (int64_t)number;
    s->random.pair[1] = (int64_t)step;
    rt_input *input = rt_find_input(s, TC_SEED_INPUT);
    const int64_t dims[] = {2};
    tempo_tensor pair = {TEMPO_INT64, 1, dims, s->random.pair, sizeof s->random.pair};
    return input && (!input->data || input->data == s->random.pair) ? bind(s, TC_SEED_INPUT, &pair) : TC_OK;
}

static tempo_status call_seed(tempo_session *s, uint64_t number, uint64_t step) { RT_CALL(s, seed(s, number, step)); }

void tempo_seed(tempo_session *s, uint64_t number, uint64_t step) { (void)call_seed(s, number, step); }

/* --- running ---------------------------------------------------------------------------------- */

tempo_status tempo_prepare(tempo_session *s) { RT_CALL(s, rt_prepare(s)); }

static const char *operand_types(tc_arena *arena, const tc_node *node) {
    size_t n = 0, capacity = 0;
    char *text = tc_arena_grow(arena, NULL, 1, &capacity, 1);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const tc_value *value = tc_input(node, i);
        const char *type = value ? tc_type_text(arena, value->type) : "";
        text = tc_arena_grow(arena, text, 1, &capacity, n + strlen(type) + 3);
        n += (size_t)sprintf(text + n, "%s%s", i > 0 ? ", " : "", type);
    }
    text[n] = '\0';
    return text;
}

static void pass_event(void *user, const rt_launch *launch, double start, double seconds) {
    tempo_session *s = user;
    tc_arena *arena = tc_arena_create();
    const tc_value *result = tc_output(launch->node, 0);
    tempo_event event = {launch->node->op_type,
                         tc_node_label(launch->node),
                         tc_type_text(arena, result ? result->type : NULL),
                         operand_types(arena, launch->node),
                         start,
                         seconds};
    s->event(s->event_user, &event);
    tc_arena_destroy(arena);
}

static tc_status run(tempo_session *s) {
    s->ran = false;
    TC_TRY(rt_check_ranks(s));
    TC_TRY(rt_prepare(s));
    TC_TRY(rt_agree(s));
    tc_status status = rt_execute(&s->ctx, s->kept[0].plan, s->event ? pass_event : NULL, s);
    if (status != TC_OK)
        rt_part(s);
    TC_TRY(status);
    s->ran = true;
    if (!rt_renew_states(s->kept[0].plan))
        return TC_OK;
    for (uint32_t i = 0; i < s->shared.n_states; i++)
        s->inputs[s->shared.states[i].input].data = s->shared.states[i].memory[0];
    s->moved = true;
    return TC_OK;
}

tempo_status tempo_run(tempo_session *s) { RT_CALL(s, run(s)); }

void tempo_on_event(tempo_session *s, tempo_event_fn event, void *user) {
    if (s->lost)
        return;
    s->event = event;
    s->event_user = user;
}

bool rt_find_output(const tempo_session *s, const char *name, uint32_t *out_index) {
    size_t at = s->inputs ? (size_t)(uintptr_t)tc_map_get(s->outputs_by_name, name) : 0;
    *out_index = (uint32_t)at - 1;
    return at > 0;
}

static tc_status output(tempo_session *s, const char *name, tempo_tensor *out_tensor) {
    if (!s->ran || !s->current)
        return tc_error(&s->ctx, TC_USAGE, NULL, "there are no outputs before a run");
    const rt_plan *plan = rt_current_plan(s);
    uint32_t at;
    if (!rt_find_output(s, name, &at))
        return tc_error(&s->ctx, TC_USAGE, NULL, "the model has no output '%s'", tc_quote(&s->ctx, name));
    rt_plan_tensor(plan, plan->graph->outputs[at], out_tensor);
    return TC_OK;
}

tempo_status tempo_output(tempo_session *s, const char *name, tempo_tensor *out_tensor) {
    RT_CALL(s, output(s, name, out_tensor));
}

const char *tempo_version(void) { return TEMPO_VERSION; }
