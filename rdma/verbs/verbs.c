//go:build cgo && linux

#define _GNU_SOURCE
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions of the two libraries: X(name, version, result, parameters). */
#define VERBS_FUNCTIONS(X) \
	X(ibv_get_device_name, "IBVERBS_1.1", const char *, (struct vb_device *)) \
	X(ibv_query_device, "IBVERBS_1.1", int, (struct vb_context *, struct vb_device_attr *)) \
	X(ibv_alloc_pd, "IBVERBS_1.1", struct vb_pd *, (struct vb_context *)) \
	X(ibv_dealloc_pd, "IBVERBS_1.1", int, (struct vb_pd *)) \
	X(ibv_reg_mr, "IBVERBS_1.1", struct vb_mr *, (struct vb_pd *, void *, size_t, int)) \
	X(ibv_dereg_mr, "IBVERBS_1.1", int, (struct vb_mr *)) \
	X(ibv_create_comp_channel, "IBVERBS_1.0", struct vb_comp_channel *, (struct vb_context *)) \
	X(ibv_destroy_comp_channel, "IBVERBS_1.0", int, (struct vb_comp_channel *)) \
	X(ibv_create_cq, "IBVERBS_1.1", struct vb_cq *, (struct vb_context *, int, void *, struct vb_comp_channel *, int)) \
	X(ibv_destroy_cq, "IBVERBS_1.1", int, (struct vb_cq *)) \
	X(ibv_get_cq_event, "IBVERBS_1.1", int, (struct vb_comp_channel *, struct vb_cq **, void **)) \
	X(ibv_ack_cq_events, "IBVERBS_1.1", void, (struct vb_cq *, unsigned int)) \
	X(ibv_modify_qp, "IBVERBS_1.1", int, (struct vb_qp *, struct vb_qp_attr *, int)) \
	X(ibv_query_qp, "IBVERBS_1.1", int, (struct vb_qp *, struct vb_qp_attr *, int, struct vb_qp_init_attr *)) \
	X(ibv_get_async_event, "IBVERBS_1.1", int, (struct vb_context *, struct vb_async_event *)) \
	X(ibv_ack_async_event, "IBVERBS_1.1", void, (struct vb_async_event *))

#define CM_FUNCTIONS(X) \
	X(rdma_create_event_channel, "RDMACM_1.0", struct vb_cm_channel *, (void)) \
	X(rdma_destroy_event_channel, "RDMACM_1.0", void, (struct vb_cm_channel *)) \
	X(rdma_get_cm_event, "RDMACM_1.0", int, (struct vb_cm_channel *, struct vb_cm_event **)) \
	X(rdma_ack_cm_event, "RDMACM_1.0", int, (struct vb_cm_event *)) \
	X(rdma_create_id, "RDMACM_1.0", int, (struct vb_cm_channel *, struct vb_cm_id **, void *, int)) \
	X(rdma_destroy_id, "RDMACM_1.0", int, (struct vb_cm_id *)) \
	X(rdma_migrate_id, "RDMACM_1.0", int, (struct vb_cm_id *, struct vb_cm_channel *)) \
	X(rdma_bind_addr, "RDMACM_1.0", int, (struct vb_cm_id *, struct sockaddr *)) \
	X(rdma_listen, "RDMACM_1.0", int, (struct vb_cm_id *, int)) \
	X(rdma_resolve_addr, "RDMACM_1.0", int, (struct vb_cm_id *, struct sockaddr *, struct sockaddr *, int)) \
	X(rdma_resolve_route, "RDMACM_1.0", int, (struct vb_cm_id *, int)) \
	X(rdma_create_qp, "RDMACM_1.0", int, (struct vb_cm_id *, struct vb_pd *, struct vb_qp_init_attr *)) \
	X(rdma_destroy_qp, "RDMACM_1.0", void, (struct vb_cm_id *)) \
	X(rdma_connect, "RDMACM_1.0", int, (struct vb_cm_id *, struct vb_conn_param *)) \
	X(rdma_accept, "RDMACM_1.0", int, (struct vb_cm_id *, struct vb_conn_param *)) \
	X(rdma_reject, "RDMACM_1.0", int, (struct vb_cm_id *, const void *, uint8_t)) \
	X(rdma_disconnect, "RDMACM_1.0", int, (struct vb_cm_id *))

#define POINTER(name, version, result, parameters) static result(*name) parameters;
VERBS_FUNCTIONS(POINTER)
CM_FUNCTIONS(POINTER)

int vb_load(char *err, size_t n)
{
	void *lib;

	/* Later calls find the libraries open; they stay open for good. */
#define FIND(name, version, result, parameters) \
	*(void **)&name = dlvsym(lib, #name, version); \
	if (name == NULL) { \
		snprintf(err, n, "%s", dlerror()); \
		return -1; \
	}
	lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (lib == NULL) {
		snprintf(err, n, "%s", dlerror());
		return -1;
	}
	VERBS_FUNCTIONS(FIND)
	lib = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (lib == NULL) {
		snprintf(err, n, "%s", dlerror());
		return -1;
	}
	CM_FUNCTIONS(FIND)
	return 0;
}

/* Some functions say why they failed only in errno, and some forget to. */
static int failed(void)
{
	return errno != 0 ? errno : EIO;
}

/* The result of a function that returns 0, an errno, or -1 and errno. */
static int result(int r)
{
	return r >= 0 ? r : failed();
}

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return errno;
	return 0;
}

/* Connection management. */

int vb_cm_open(struct vb_cm_channel **ch)
{
	int err;

	errno = 0;
	*ch = rdma_create_event_channel();
	if (*ch == NULL)
		return failed();
	err = nonblocking((*ch)->fd);
	if (err != 0)
		rdma_destroy_event_channel(*ch);
	return err;
}

void vb_cm_close(struct vb_cm_channel *ch)
{
	rdma_destroy_event_channel(ch);
}

int vb_cm_next(struct vb_cm_channel *ch, struct vb_event *out)
{
	struct vb_cm_event *e = NULL;

	if (rdma_get_cm_event(ch, &e) != 0)
		return failed();
	memset(out, 0, sizeof *out);
	out->id = e->id;
	out->listen_id = e->listen_id;
	out->type = e->event;
	out->status = e->status;
	switch (e->event) {
	case VB_CM_CONNECT_REQUEST:
	case VB_CM_ESTABLISHED:
	case VB_CM_REJECTED:
		out->responder_resources = e->conn.responder_resources;
		out->initiator_depth = e->conn.initiator_depth;
		out->private_len = e->conn.private_data_len;
		if (e->conn.private_data != NULL)
			memcpy(out->private_data, e->conn.private_data, out->private_len);
		else
			out->private_len = 0;
	}
	return result(rdma_ack_cm_event(e));
}

int vb_id_create(struct vb_cm_channel *ch, struct vb_cm_id **id)
{
	return result(rdma_create_id(ch, id, NULL, VB_PS_TCP));
}

int vb_id_destroy(struct vb_cm_id *id)
{
	return result(rdma_destroy_id(id));
}

int vb_id_migrate(struct vb_cm_id *id, struct vb_cm_channel *ch)
{
	return result(rdma_migrate_id(id, ch));
}

int vb_id_bind(struct vb_cm_id *id, void *addr)
{
	return result(rdma_bind_addr(id, addr));
}

int vb_id_listen(struct vb_cm_id *id, int backlog)
{
	return result(rdma_listen(id, backlog));
}

int vb_id_resolve_addr(struct vb_cm_id *id, void *addr, int ms)
{
	return result(rdma_resolve_addr(id, NULL, addr, ms));
}

int vb_id_resolve_route(struct vb_cm_id *id, int ms)
{
	return result(rdma_resolve_route(id, ms));
}

static struct vb_conn_param parameters(void *data, uint8_t len, uint8_t ird, uint8_t ord)
{
	struct vb_conn_param p = {
		.private_data = len > 0 ? data : NULL,
		.private_data_len = len,
		.responder_resources = ird,
		.initiator_depth = ord,
		.flow_control = 1,
		.retry_count = 7,
		/* Credits see to it that there is a receive buffer for every message (RFC 8166 section 3.3.1). */
		.rnr_retry_count = 0,
	};
	return p;
}

int vb_id_connect(struct vb_cm_id *id, void *data, uint8_t len, uint8_t ird, uint8_t ord)
{
	struct vb_conn_param p = parameters(data, len, ird, ord);

	return result(rdma_connect(id, &p));
}

int vb_id_accept(struct vb_cm_id *id, void *data, uint8_t len, uint8_t ird, uint8_t ord)
{
	struct vb_conn_param p = parameters(data, len, ird, ord);

	return result(rdma_accept(id, &p));
}

int vb_id_reject(struct vb_cm_id *id)
{
	return result(rdma_reject(id, NULL, 0));
}

int vb_id_disconnect(struct vb_cm_id *id)
{
	return result(rdma_disconnect(id));
}

/* Devices. */

int vb_limits_get(struct vb_context *ctx, struct vb_limits *out)
{
	struct vb_device_attr a;
	int err;

	memset(&a, 0, sizeof a);
	err = result(ibv_query_device(ctx, &a));
	if (err != 0)
		return err;
	err = nonblocking(ctx->async_fd);
	if (err != 0)
		return err;
	snprintf(out->name, sizeof out->name, "%s", ibv_get_device_name(ctx->device));
	out->rxe = a.vendor_id == VB_VENDOR_RXE;
	out->iwarp = ctx->device->transport == VB_TRANSPORT_IWARP;
	out->windows = a.device_cap_flags & VB_DEVICE_MEM_WINDOW_TYPE_2B ? a.max_mw : 0;
	out->queue = a.max_qp_wr;
	out->cqe = a.max_cqe;
	out->gather = a.max_sge;
	out->ird = a.max_qp_rd_atom;
	out->ord = a.max_qp_init_rd_atom;
	out->mr_size = a.max_mr_size;
	return 0;
}

int vb_pd_alloc(struct vb_context *ctx, struct vb_pd **pd)
{
	errno = 0;
	*pd = ibv_alloc_pd(ctx);
	return *pd != NULL ? 0 : failed();
}

int vb_pd_free(struct vb_pd *pd)
{
	return result(ibv_dealloc_pd(pd));
}

int vb_mr_register(struct vb_pd *pd, uint64_t addr, uint64_t len, int access, struct vb_mr **mr)
{
	errno = 0;
	*mr = ibv_reg_mr(pd, (void *)(uintptr_t)addr, len, access);
	return *mr != NULL ? 0 : failed();
}

int vb_mr_free(struct vb_mr *mr)
{
	return result(ibv_dereg_mr(mr));
}

int vb_mw_alloc(struct vb_pd *pd, struct vb_mw **mw)
{
	if (pd->context->ops.alloc_mw == NULL)
		return EOPNOTSUPP;
	errno = 0;
	*mw = pd->context->ops.alloc_mw(pd, VB_MW_TYPE_2);
	if (*mw == NULL)
		return failed();
	/* Filled in by the inline wrapper of the headers, not by the driver. */
	(*mw)->context = pd->context;
	(*mw)->type = VB_MW_TYPE_2;
	return 0;
}

int vb_mw_free(struct vb_mw *mw)
{
	return result(mw->context->ops.dealloc_mw(mw));
}

int vb_async_next(struct vb_context *ctx, int *type, void **element)
{
	struct vb_async_event e;

	errno = 0;
	if (ibv_get_async_event(ctx, &e) != 0)
		return failed();
	*type = e.event_type;
	*element = e.element;
	ibv_ack_async_event(&e);
	return 0;
}

/* Queue pairs. */

int vb_conn_make(struct vb_cm_id *id, struct vb_pd *pd, int sends, int recvs, int gather, int cqe, struct vb_conn **out)
{
	struct vb_qp_init_attr attr;
	struct vb_conn *c = calloc(1, sizeof *c);
	int err = ENOMEM;

	if (c == NULL)
		return err;
	c->id = id;
	c->gather = gather;
	c->sends = calloc(VB_BATCH, sizeof *c->sends);
	c->recvs = calloc(VB_BATCH, sizeof *c->recvs);
	c->sges = calloc((size_t)VB_BATCH * gather, sizeof *c->sges);
	c->wcs = calloc(VB_BATCH, sizeof *c->wcs);
	if (c->sends == NULL || c->recvs == NULL || c->sges == NULL || c->wcs == NULL)
		goto undo;
	errno = 0;
	c->channel = ibv_create_comp_channel(id->verbs);
	if (c->channel == NULL) {
		err = failed();
		goto undo;
	}
	err = nonblocking(c->channel->fd);
	if (err != 0)
		goto undo;
	errno = 0;
	c->cq = ibv_create_cq(id->verbs, cqe, NULL, c->channel, 0);
	if (c->cq == NULL) {
		err = failed();
		goto undo;
	}
	memset(&attr, 0, sizeof attr);
	attr.send_cq = attr.recv_cq = c->cq;
	attr.qp_type = VB_QPT_RC;
	attr.cap.max_send_wr = sends;
	attr.cap.max_recv_wr = recvs;
	attr.cap.max_send_sge = gather;
	attr.cap.max_recv_sge = 1;
	errno = 0;
	err = result(rdma_create_qp(id, pd, &attr));
	if (err != 0)
		goto undo;
	c->qp = id->qp;
	*out = c;
	return 0;
undo:
	vb_conn_free(c);
	return err;
}

int vb_conn_free(struct vb_conn *c)
{
	int err = 0;

	if (c->qp != NULL)
		rdma_destroy_qp(c->id);
	if (c->cq != NULL)
		err = result(ibv_destroy_cq(c->cq));
	if (c->channel != NULL && err == 0)
		err = result(ibv_destroy_comp_channel(c->channel));
	free(c->sends);
	free(c->recvs);
	free(c->sges);
	free(c->wcs);
	free(c);
	return err;
}

int vb_post_send(struct vb_conn *c, int n, int *posted)
{
	struct vb_send_wr *bad = NULL;
	int i, err;

	for (i = 0; i < n; i++) {
		c->sends[i].next = i + 1 < n ? &c->sends[i + 1] : NULL;
		c->sends[i].sg_list = &c->sges[i * c->gather];
	}
	err = result(c->qp->context->ops.post_send(c->qp, c->sends, &bad));
	*posted = err == 0 ? n : bad != NULL ? (int)(bad - c->sends) : 0;
	/* The next binding of a window is addressed by the key of this one. */
	for (i = 0; i < *posted; i++)
		if (c->sends[i].opcode == VB_WR_BIND_MW)
			c->sends[i].bind.mw->rkey = c->sends[i].bind.rkey;
	return err;
}

int vb_post_recv(struct vb_conn *c, int n, int *posted)
{
	struct vb_recv_wr *bad = NULL;
	int i, err;

	for (i = 0; i < n; i++) {
		c->recvs[i].next = i + 1 < n ? &c->recvs[i + 1] : NULL;
		c->recvs[i].sg_list = &c->sges[i];
		c->recvs[i].num_sge = 1;
	}
	err = result(c->qp->context->ops.post_recv(c->qp, c->recvs, &bad));
	*posted = err == 0 ? n : bad != NULL ? (int)(bad - c->recvs) : 0;
	return err;
}

int vb_poll(struct vb_conn *c)
{
	const struct vb_context_ops *ops = &c->cq->context->ops;
	int n = ops->poll_cq(c->cq, VB_BATCH, c->wcs);

	if (n != 0)
		return n;
	if (ops->req_notify_cq(c->cq, 0) != 0)
		return -1;
	return ops->poll_cq(c->cq, VB_BATCH, c->wcs);
}

int vb_cq_event(struct vb_conn *c)
{
	struct vb_cq *cq;
	void *context;

	errno = 0;
	if (ibv_get_cq_event(c->channel, &cq, &context) != 0)
		return failed();
	ibv_ack_cq_events(cq, 1);
	return 0;
}

int vb_qp_to_error(struct vb_conn *c)
{
	struct vb_qp_attr attr;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = VB_QPS_ERR;
	return result(ibv_modify_qp(c->qp, &attr, VB_QP_STATE));
}

int vb_qp_in_error(struct vb_conn *c)
{
	struct vb_qp_init_attr init;
	struct vb_qp_attr attr;

	memset(&attr, 0, sizeof attr);
	if (result(ibv_query_qp(c->qp, &attr, VB_QP_STATE, &init)) != 0)
		return 1;
	return attr.qp_state == VB_QPS_ERR;
}
