/*
 * The calls that this package makes into librdmacm and libibverbs. Unless said
 * otherwise they return 0 or an errno, and none of them keeps a pointer that it
 * is given after it has returned.
 */
#ifndef NFSRDMA_VERBS_H
#define NFSRDMA_VERBS_H

#include "abi.h"

/* Opens the libraries. On failure writes a reason to err and returns -1. */
int vb_load(char *err, size_t n);

/* A connection-management event without references into the library. */
struct vb_event {
	struct vb_cm_id *id;
	struct vb_cm_id *listen_id;
	int type;
	int status;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t private_len;
	uint8_t private_data[255];
};

int vb_cm_open(struct vb_cm_channel **ch);
void vb_cm_close(struct vb_cm_channel *ch);
/* Takes the next event and acknowledges it; EAGAIN if there is none. */
int vb_cm_next(struct vb_cm_channel *ch, struct vb_event *out);

int vb_id_create(struct vb_cm_channel *ch, struct vb_cm_id **id);
int vb_id_destroy(struct vb_cm_id *id);
int vb_id_migrate(struct vb_cm_id *id, struct vb_cm_channel *ch);
int vb_id_bind(struct vb_cm_id *id, void *addr);
int vb_id_listen(struct vb_cm_id *id, int backlog);
int vb_id_resolve_addr(struct vb_cm_id *id, void *addr, int ms);
int vb_id_resolve_route(struct vb_cm_id *id, int ms);
int vb_id_connect(struct vb_cm_id *id, void *data, uint8_t len, uint8_t ird, uint8_t ord);
int vb_id_accept(struct vb_cm_id *id, void *data, uint8_t len, uint8_t ird, uint8_t ord);
int vb_id_reject(struct vb_cm_id *id);
int vb_id_disconnect(struct vb_cm_id *id);

/* A device and the limits of it that matter here. */
struct vb_limits {
	char name[64];
	int iwarp;
	int rxe;     /* the kernel's software RoCE */
	int windows; /* number of type 2B memory windows, 0: none */
	int queue;   /* work requests per queue */
	int cqe;
	int gather;
	int ird, ord;
	uint64_t mr_size;
};

int vb_limits_get(struct vb_context *ctx, struct vb_limits *out);
int vb_pd_alloc(struct vb_context *ctx, struct vb_pd **pd);
int vb_pd_free(struct vb_pd *pd);
int vb_mr_register(struct vb_pd *pd, uint64_t addr, uint64_t len, int access, struct vb_mr **mr);
int vb_mr_free(struct vb_mr *mr);
int vb_mw_alloc(struct vb_pd *pd, struct vb_mw **mw);
int vb_mw_free(struct vb_mw *mw);
/* Takes the next asynchronous event and acknowledges it; EAGAIN if there is none. */
int vb_async_next(struct vb_context *ctx, int *type, void **element);

/* What belongs to one queue pair, memory for its batches included. */
struct vb_conn {
	struct vb_cm_id *id;
	struct vb_qp *qp;
	struct vb_cq *cq;
	struct vb_comp_channel *channel;
	int gather;
	struct vb_send_wr *sends;
	struct vb_recv_wr *recvs;
	struct vb_sge *sges; /* gather of them for every send */
	struct vb_wc *wcs;
};

/* Work requests or completions that one call hands over at most. */
enum { VB_BATCH = 64 };

/* Makes channel, completion queue and queue pair for id; undone by vb_conn_free. */
int vb_conn_make(struct vb_cm_id *id, struct vb_pd *pd, int sends, int recvs, int gather, int cqe, struct vb_conn **out);
/* Frees them, and whatever of them was made. The id stays. */
int vb_conn_free(struct vb_conn *c);
/* Post the first n of c->sends or c->recvs; *posted tells how many were taken. */
int vb_post_send(struct vb_conn *c, int n, int *posted);
int vb_post_recv(struct vb_conn *c, int n, int *posted);
/*
 * Fills c->wcs and returns how many, or -1. With none there it asks for an
 * event and looks once more.
 */
int vb_poll(struct vb_conn *c);
/* Takes an event of the completion channel; EAGAIN if there is none. */
int vb_cq_event(struct vb_conn *c);
int vb_qp_to_error(struct vb_conn *c);
/* Reports whether the queue pair is in the error state; true if it cannot be asked. */
int vb_qp_in_error(struct vb_conn *c);

#endif
