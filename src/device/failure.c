/* Errors of commands that fail on the device. A later, unrelated call reports them (NVIDIA's driver then fails to build any program). So
 * the device remembers the last commands of its compute queue, and the message lists them. */
#include "base/text/text.h"
#include "device/device_private.h"

static void copy(char to[CHARL__COMMAND_TEXT], const char *from)
{
    int i = 0;

    for (; from && from[i] && i < CHARL__COMMAND_TEXT - 1; i++) {
        to[i] = from[i];
    }
    to[i] = '\0';
}

void charl__command_note(charl_device *dev, const char *what, const char *label)
{
    charl__command *c = &dev->recent[dev->noted++ % CHARL__RECENT_COMMANDS];

    copy(c->what, what);
    copy(c->label, label);
}

void charl__commands_completed(charl_device *dev)
{
    dev->completed = dev->noted;
}

/* The commands that may have failed, the oldest first. */
static charl_status list_commands(const charl_device *dev, charl__text *out)
{
    const int64_t n = dev->noted - dev->completed;
    const int64_t shown = n < CHARL__RECENT_COMMANDS ? n : CHARL__RECENT_COMMANDS;

    if (n == 1) {
        CHARL_TRY(charl__text_printf(out, "the only command since the device last answered is"));
    } else if (n == shown) {
        CHARL_TRY(charl__text_printf(out, "the %lld commands since the device last answered are", (long long)n));
    } else {
        CHARL_TRY(charl__text_printf(out, "of the %lld commands since the device last answered, the last %lld are",
                                     (long long)n, (long long)shown));
    }
    for (int64_t i = dev->noted - shown; i < dev->noted; i++) {
        const charl__command *c = &dev->recent[i % CHARL__RECENT_COMMANDS];

        CHARL_TRY(charl__text_printf(out, "%s %s (%s)", i > dev->noted - shown ? "," : "", c->what, c->label));
    }
    return CHARL_OK;
}

charl_status charl__device_failed(const charl_device *dev, const char *call, charl__driver_error e)
{
    CHARL_SCOPED(charl__text_fini) charl__text commands = {0};

    if (e.fault == CHARL__NO_FAULT || dev->noted == dev->completed) {
        CHARL_FAIL(e.status, "%s on %s: %s", call, dev->info.name, e.text);
    }
    CHARL_TRY(list_commands(dev, &commands));
    CHARL_FAIL(CHARL_ERR_DEVICE, "%s on %s: %s. An earlier command has failed there: %s%s", call, dev->info.name,
               e.text, charl__text_string(&commands),
               dev->sync ? "" : "; HINT CHARL_SYNC=1 in the environment finds the one");
}

charl_status charl__device_check(const charl_device *dev, const char *call, int err)
{
    return err == 0 ? CHARL_OK : charl__device_failed(dev, call, dev->driver->error(err));
}
