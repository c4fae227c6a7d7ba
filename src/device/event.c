/* Points in a queue. Recording flushes, so that whoever waits for or polls an event always sees it
 * arrive. */
#include "device/cl_private.h"

charl_status charl__event_record(charl_device *dev, charl_queue q, charl_event **out)
{
    charl_status st = CHARL_OK;
    charl_event *e = NULL;
    cl_int err = CL_SUCCESS;

    *out = NULL;
    CHARL_TRY(charl_alloc(sizeof *e, &e));
    e->dev = charl__device_retain(dev);
    CHARL_TRY(charl__acquire("event"));
    err = clEnqueueMarkerWithWaitList(dev->queue[q], 0, NULL, &e->event);
    if (err != CL_SUCCESS) {
        e->event = NULL;
        charl__drop();
        CHARL_FAIL(charl__cl_status(err), "recording an event: %s", charl__cl_name(err));
    }
    CHARL_CL(clFlush(dev->queue[q]));
    *out = e;
    e = NULL;
cleanup:
    charl__event_release(e);
    return st;
}

charl_status charl__queue_wait(charl_device *dev, charl_queue q, const charl_event *e)
{
    charl_status st = CHARL_OK;

    CHARL_CL(clEnqueueBarrierWithWaitList(dev->queue[q], 1, &e->event, NULL));
cleanup:
    return st;
}

charl_status charl__event_is_done(const charl_event *e, bool *done)
{
    charl_status st = CHARL_OK;
    cl_int state = CL_QUEUED;

    *done = false;
    CHARL_CL(
        clGetEventInfo(e->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    CHARL_REQUIRE(state >= 0, CHARL_ERR_DEVICE, "a command failed on %s: %s%s", e->dev->info.name,
                  charl__cl_name(state), e->dev->sync ? "" : " (CHARL_SYNC=1 names the launch)");
    *done = state == CL_COMPLETE;
cleanup:
    return st;
}

charl_status charl__event_wait(const charl_event *e)
{
    charl_status st = CHARL_OK;
    bool done = false;

    CHARL_TRY(charl__event_is_done(e, &done));
    if (!done) {
        const cl_int err = clWaitForEvents(1, &e->event);

        e->dev->counters.host_waits++;
        CHARL_REQUIRE(err == CL_SUCCESS, charl__cl_status(err), "waiting for %s: %s%s",
                      e->dev->info.name, charl__cl_name(err),
                      e->dev->sync ? "" : " (CHARL_SYNC=1 names the launch)");
    }
cleanup:
    return st;
}

void charl__event_release(charl_event *e)
{
    if (e) {
        if (e->event) {
            clReleaseEvent(e->event);
            charl__drop();
        }
        charl__device_release(e->dev);
        charl_free(e);
    }
}
