// Package grants keeps the rights of ClusterSources in step with the namespaces that they select, and publishes the
// rights of every source.
//
// A ClusterSource has one RoleBinding in each selected namespace. The alternative, an admission policy with the
// ClusterSource as its parameter, cannot limit logs and exec, and denies everybody if the parameter is missing.
//
// A namespace that is no longer selected gets a RoleBinding to a role that cannot create objects. The source keeps it
// until its last object there is gone, so that it can end its delegates. The new RoleBinding is created before the old
// one is deleted, so the source is never without rights. For the same reason, the ClusterRoleBinding of earlier
// versions stays until this package's cache has all RoleBindings that replace it.
//
// An unused namespace gets this RoleBinding, too, for a moment: the source may create a PodChaperon until the API
// server knows that the old RoleBinding is gone. Before the new one is deleted, the API server is asked for
// PodChaperons, because the cache may not have them yet.
//
// Some namespaces are left out by default. Earlier versions did not do so. While the default is not enforced, an
// upgrade keeps the rights in those of them that the source uses at that time, and reports them.
//
// This package changes and deletes only objects that have the manager's label. Bindings that an administrator made by
// hand stay, whatever they bind.
package grants
