/* The way of classify on which the device resizes the pictures. */
#ifndef RVIT_CLI_CLASSIFY_PICTURES_H
#define RVIT_CLI_CLASSIFY_PICTURES_H

#include "classify_batch.h"

/* Settles what --native limits; then plan and the desc of a session follow from that and the batch. */
int classify_pictures_settle(struct classify *self);
void classify_pictures_desc(struct classify *self, rvit_session_desc *out);
/* Pictures that the device resizes: sessions and queue, and the whole run. */
int classify_pictures_open(struct classify *self, const rvit_session_desc *desc);
int classify_pictures_run(struct classify *self);

#endif
