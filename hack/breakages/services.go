package main

func ofServices() []breakage {
	return []breakage{
		{
			name: "endpoints-stay", file: services + "reconcile.go", test: served,
			does: "surplus endpoints are not deleted",
			from: "	for _, slice := range surplus {\n", to: "	for _, slice := range surplus[:0] {\n",
		},
		{
			name: "endpoints-not-changed", file: services + "changes.go", test: served,
			does: "a change of endpoints is not written",
			from: "	if !equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {",
			to:   "	if false && !equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {",
		},
		{
			name: "endpoints-of-the-target-itself", file: services + "desired.go", test: served,
			does: "the target gets the endpoints of its own pods",
			from: "ptr.Deref(endpoint.NodeName, \"\") != d.nodeName {",
			to:   "ptr.Deref(endpoint.NodeName, \"\") != d.nodeName || true {",
		},
		{
			name: "endpoints-for-others", file: services + "reconcile.go", test: served,
			does: "a Service that is not ours gets endpoints",
			from: "	if err == nil && !merged(from.service) {", to: "	if !merged(from.service) {",
		},
		{
			name: "spec-not-changed", file: services + "changes.go", test: served,
			does: "a change of the spec is not written",
			from: "	if equality.Semantic.DeepEqual(existing, wanted) {",
			to:   "	if true || equality.Semantic.DeepEqual(existing, wanted) {",
		},
		{
			name: "patches-what-others-took", file: writer + "patch.go", test: served,
			does: "a copy is patched without a test of its label",
			from: "patch.TestUID(there.GetUID()), w.testOurs()}", to: "patch.TestUID(there.GetUID())}",
		},
		{
			name: "mark-stays-away", file: writer + "patch.go", test: served,
			does: "a copy that has lost its annotation `followed-by` does not get it back",
			from: "	if _, marked := annotations[v1alpha1.AnnotationFollowedBy]; marked {",
			to:   "	if _, marked := annotations[v1alpha1.AnnotationFollowedBy]; marked || true {",
		},
		{
			name: "collects-what-others-took", file: collector + "endpoints.go", test: served,
			does: "an EndpointSlice is collected without the resource version",
			from: "	only := metav1.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}",
			to:   "	only := metav1.Preconditions{UID: &slice.UID}",
		},
		{
			name: "refusal-unreported", file: services + "copier.go", test: served,
			does: "no event says why a target has no copy",
			from: "	if news && about != nil {", to: "	if false && news && about != nil {",
		},
		{
			name: "deletes-what-others-took", file: services + "reconcile.go", test: served,
			does: "a copy is deleted without the resource version",
			from: "	return c.writer.Delete(ctx, object, writer.AsSeen(there))",
			to: "	only := writer.AsSeen(there)\n	only.ResourceVersion = nil\n" +
				"	return c.writer.Delete(ctx, object, only)",
		},
		{
			name: "account-made-anew", file: writer + "patch.go", test: served,
			does: "a ServiceAccount without annotations is deleted and made anew",
			from: "	if len(found.GetAnnotations()) == 0 {", to: "	if false {",
		},
		{
			name: "certificate-not-kept", file: services + "ingress.go", test: served,
			does: "the TLS Secret of an Ingress is not copied",
			from: "	if c.follower.options.KeepSecrets == nil {",
			to:   "	if true || c.follower.options.KeepSecrets == nil {",
		},
	}
}
