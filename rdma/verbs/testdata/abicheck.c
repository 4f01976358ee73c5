/*
 * Compares abi.h with the headers of libibverbs and librdmacm, where they are
 * installed: it compiles if both agree.
 */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include "../abi.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)
#define FIELD_AT(ours, f, theirs, g) \
	SAME(offsetof(struct ours, f), offsetof(struct theirs, g)); \
	SAME(sizeof(((struct ours *)0)->f), sizeof(((struct theirs *)0)->g))
#define FIELD(ours, theirs, f) FIELD_AT(ours, f, theirs, f)
#define WHOLE(ours, theirs) SAME(sizeof(struct ours), sizeof(struct theirs))
#define LONG_ENOUGH(ours, theirs) \
	_Static_assert(sizeof(struct ours) >= sizeof(struct theirs), #ours " is too short")

FIELD_AT(vb_device, node_type, ibv_device, node_type);
FIELD_AT(vb_device, transport, ibv_device, transport_type);

SAME(sizeof(struct vb_context_ops), sizeof(struct ibv_context_ops));
FIELD(vb_context_ops, ibv_context_ops, alloc_mw);
FIELD(vb_context_ops, ibv_context_ops, bind_mw);
FIELD(vb_context_ops, ibv_context_ops, dealloc_mw);
FIELD(vb_context_ops, ibv_context_ops, poll_cq);
FIELD(vb_context_ops, ibv_context_ops, req_notify_cq);
FIELD(vb_context_ops, ibv_context_ops, post_send);
FIELD(vb_context_ops, ibv_context_ops, post_recv);
FIELD(vb_context, ibv_context, device);
FIELD(vb_context, ibv_context, ops);
FIELD(vb_context, ibv_context, cmd_fd);
FIELD(vb_context, ibv_context, async_fd);

FIELD(vb_pd, ibv_pd, context);
FIELD(vb_mr, ibv_mr, context);
FIELD(vb_mr, ibv_mr, pd);
FIELD(vb_mr, ibv_mr, addr);
FIELD(vb_mr, ibv_mr, length);
FIELD(vb_mr, ibv_mr, lkey);
FIELD(vb_mr, ibv_mr, rkey);
FIELD(vb_mw, ibv_mw, context);
FIELD(vb_mw, ibv_mw, rkey);
FIELD(vb_mw, ibv_mw, type);
FIELD(vb_comp_channel, ibv_comp_channel, context);
FIELD(vb_comp_channel, ibv_comp_channel, fd);
FIELD(vb_cq, ibv_cq, context);
FIELD(vb_qp, ibv_qp, context);

WHOLE(vb_sge, ibv_sge);
FIELD(vb_sge, ibv_sge, addr);
FIELD(vb_sge, ibv_sge, length);
FIELD(vb_sge, ibv_sge, lkey);

WHOLE(vb_send_wr, ibv_send_wr);
FIELD(vb_send_wr, ibv_send_wr, wr_id);
FIELD(vb_send_wr, ibv_send_wr, next);
FIELD(vb_send_wr, ibv_send_wr, sg_list);
FIELD(vb_send_wr, ibv_send_wr, num_sge);
FIELD(vb_send_wr, ibv_send_wr, opcode);
FIELD(vb_send_wr, ibv_send_wr, send_flags);
FIELD(vb_send_wr, ibv_send_wr, invalidate_rkey);
FIELD_AT(vb_send_wr, rdma.remote_addr, ibv_send_wr, wr.rdma.remote_addr);
FIELD_AT(vb_send_wr, rdma.rkey, ibv_send_wr, wr.rdma.rkey);
FIELD_AT(vb_send_wr, bind.mw, ibv_send_wr, bind_mw.mw);
FIELD_AT(vb_send_wr, bind.rkey, ibv_send_wr, bind_mw.rkey);
FIELD_AT(vb_send_wr, bind.mr, ibv_send_wr, bind_mw.bind_info.mr);
FIELD_AT(vb_send_wr, bind.addr, ibv_send_wr, bind_mw.bind_info.addr);
FIELD_AT(vb_send_wr, bind.length, ibv_send_wr, bind_mw.bind_info.length);
FIELD_AT(vb_send_wr, bind.access, ibv_send_wr, bind_mw.bind_info.mw_access_flags);

WHOLE(vb_recv_wr, ibv_recv_wr);
FIELD(vb_recv_wr, ibv_recv_wr, wr_id);
FIELD(vb_recv_wr, ibv_recv_wr, next);
FIELD(vb_recv_wr, ibv_recv_wr, sg_list);
FIELD(vb_recv_wr, ibv_recv_wr, num_sge);

WHOLE(vb_wc, ibv_wc);
FIELD(vb_wc, ibv_wc, wr_id);
FIELD(vb_wc, ibv_wc, status);
FIELD(vb_wc, ibv_wc, opcode);
FIELD(vb_wc, ibv_wc, vendor_err);
FIELD(vb_wc, ibv_wc, byte_len);
FIELD(vb_wc, ibv_wc, invalidated_rkey);
FIELD(vb_wc, ibv_wc, wc_flags);

WHOLE(vb_qp_cap, ibv_qp_cap);
FIELD(vb_qp_cap, ibv_qp_cap, max_send_wr);
FIELD(vb_qp_cap, ibv_qp_cap, max_recv_wr);
FIELD(vb_qp_cap, ibv_qp_cap, max_send_sge);
FIELD(vb_qp_cap, ibv_qp_cap, max_recv_sge);
WHOLE(vb_qp_init_attr, ibv_qp_init_attr);
FIELD(vb_qp_init_attr, ibv_qp_init_attr, send_cq);
FIELD(vb_qp_init_attr, ibv_qp_init_attr, recv_cq);
FIELD(vb_qp_init_attr, ibv_qp_init_attr, cap);
FIELD(vb_qp_init_attr, ibv_qp_init_attr, qp_type);
FIELD(vb_qp_init_attr, ibv_qp_init_attr, sq_sig_all);
FIELD(vb_qp_attr, ibv_qp_attr, qp_state);
LONG_ENOUGH(vb_qp_attr, ibv_qp_attr);

FIELD(vb_device_attr, ibv_device_attr, max_mr_size);
FIELD(vb_device_attr, ibv_device_attr, vendor_id);
FIELD(vb_device_attr, ibv_device_attr, max_qp_wr);
FIELD(vb_device_attr, ibv_device_attr, device_cap_flags);
FIELD(vb_device_attr, ibv_device_attr, max_sge);
FIELD(vb_device_attr, ibv_device_attr, max_sge_rd);
FIELD(vb_device_attr, ibv_device_attr, max_cqe);
FIELD(vb_device_attr, ibv_device_attr, max_mr);
FIELD(vb_device_attr, ibv_device_attr, max_qp_rd_atom);
FIELD(vb_device_attr, ibv_device_attr, max_qp_init_rd_atom);
FIELD(vb_device_attr, ibv_device_attr, max_mw);
LONG_ENOUGH(vb_device_attr, ibv_device_attr);
WHOLE(vb_async_event, ibv_async_event);
FIELD_AT(vb_async_event, element, ibv_async_event, element);
FIELD(vb_async_event, ibv_async_event, event_type);

FIELD(vb_cm_channel, rdma_event_channel, fd);
FIELD(vb_cm_id, rdma_cm_id, verbs);
FIELD(vb_cm_id, rdma_cm_id, channel);
FIELD(vb_cm_id, rdma_cm_id, context);
FIELD(vb_cm_id, rdma_cm_id, qp);
FIELD_AT(vb_cm_id, src, rdma_cm_id, route.addr.src_storage);
FIELD_AT(vb_cm_id, dst, rdma_cm_id, route.addr.dst_storage);
WHOLE(vb_conn_param, rdma_conn_param);
FIELD(vb_conn_param, rdma_conn_param, private_data);
FIELD(vb_conn_param, rdma_conn_param, private_data_len);
FIELD(vb_conn_param, rdma_conn_param, responder_resources);
FIELD(vb_conn_param, rdma_conn_param, initiator_depth);
FIELD(vb_conn_param, rdma_conn_param, flow_control);
FIELD(vb_conn_param, rdma_conn_param, retry_count);
FIELD(vb_conn_param, rdma_conn_param, rnr_retry_count);
FIELD(vb_conn_param, rdma_conn_param, qp_num);
FIELD(vb_cm_event, rdma_cm_event, id);
FIELD(vb_cm_event, rdma_cm_event, listen_id);
FIELD(vb_cm_event, rdma_cm_event, event);
FIELD(vb_cm_event, rdma_cm_event, status);
FIELD_AT(vb_cm_event, conn, rdma_cm_event, param.conn);

SAME((int)VB_TRANSPORT_IWARP, (int)IBV_TRANSPORT_IWARP);
SAME((int)VB_DEVICE_MEM_WINDOW_TYPE_2B, (int)IBV_DEVICE_MEM_WINDOW_TYPE_2B);
SAME((int)VB_ACCESS_LOCAL_WRITE, (int)IBV_ACCESS_LOCAL_WRITE);
SAME((int)VB_ACCESS_REMOTE_WRITE, (int)IBV_ACCESS_REMOTE_WRITE);
SAME((int)VB_ACCESS_REMOTE_READ, (int)IBV_ACCESS_REMOTE_READ);
SAME((int)VB_ACCESS_MW_BIND, (int)IBV_ACCESS_MW_BIND);
SAME((int)VB_MW_TYPE_2, (int)IBV_MW_TYPE_2);
SAME((int)VB_QPT_RC, (int)IBV_QPT_RC);
SAME((int)VB_QPS_ERR, (int)IBV_QPS_ERR);
SAME((int)VB_QP_STATE, (int)IBV_QP_STATE);
SAME((int)VB_WR_RDMA_WRITE, (int)IBV_WR_RDMA_WRITE);
SAME((int)VB_WR_SEND, (int)IBV_WR_SEND);
SAME((int)VB_WR_RDMA_READ, (int)IBV_WR_RDMA_READ);
SAME((int)VB_WR_LOCAL_INV, (int)IBV_WR_LOCAL_INV);
SAME((int)VB_WR_BIND_MW, (int)IBV_WR_BIND_MW);
SAME((int)VB_WR_SEND_WITH_INV, (int)IBV_WR_SEND_WITH_INV);
SAME((int)VB_SEND_SIGNALED, (int)IBV_SEND_SIGNALED);
SAME((int)VB_WC_SUCCESS, (int)IBV_WC_SUCCESS);
SAME((int)VB_WC_WR_FLUSH_ERR, (int)IBV_WC_WR_FLUSH_ERR);
SAME((int)VB_WC_WITH_INV, (int)IBV_WC_WITH_INV);
SAME((int)VB_EVENT_QP_FATAL, (int)IBV_EVENT_QP_FATAL);
SAME((int)VB_EVENT_QP_REQ_ERR, (int)IBV_EVENT_QP_REQ_ERR);
SAME((int)VB_EVENT_QP_ACCESS_ERR, (int)IBV_EVENT_QP_ACCESS_ERR);
SAME((int)VB_EVENT_DEVICE_FATAL, (int)IBV_EVENT_DEVICE_FATAL);
SAME((int)VB_PS_TCP, (int)RDMA_PS_TCP);
SAME((int)VB_CM_ADDR_RESOLVED, (int)RDMA_CM_EVENT_ADDR_RESOLVED);
SAME((int)VB_CM_ADDR_ERROR, (int)RDMA_CM_EVENT_ADDR_ERROR);
SAME((int)VB_CM_ROUTE_RESOLVED, (int)RDMA_CM_EVENT_ROUTE_RESOLVED);
SAME((int)VB_CM_ROUTE_ERROR, (int)RDMA_CM_EVENT_ROUTE_ERROR);
SAME((int)VB_CM_CONNECT_REQUEST, (int)RDMA_CM_EVENT_CONNECT_REQUEST);
SAME((int)VB_CM_CONNECT_ERROR, (int)RDMA_CM_EVENT_CONNECT_ERROR);
SAME((int)VB_CM_UNREACHABLE, (int)RDMA_CM_EVENT_UNREACHABLE);
SAME((int)VB_CM_REJECTED, (int)RDMA_CM_EVENT_REJECTED);
SAME((int)VB_CM_ESTABLISHED, (int)RDMA_CM_EVENT_ESTABLISHED);
SAME((int)VB_CM_DISCONNECTED, (int)RDMA_CM_EVENT_DISCONNECTED);
SAME((int)VB_CM_DEVICE_REMOVAL, (int)RDMA_CM_EVENT_DEVICE_REMOVAL);
SAME((int)VB_CM_ADDR_CHANGE, (int)RDMA_CM_EVENT_ADDR_CHANGE);
SAME((int)VB_CM_TIMEWAIT_EXIT, (int)RDMA_CM_EVENT_TIMEWAIT_EXIT);
