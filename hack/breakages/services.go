package main

func ofServices() []breakage {
	return []breakage{
		{
			name: "endpoints-stay", file: services + "reconcile.go", test: served,
			from: "	for _, slice := range surplus {\n", to: "	for _, slice := range surplus[:0] {\n",
		},
		{
			name: "endpoints-not-changed", file: services + "changes.go", test: served,
			from: "	if !equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {",
			to:   "	if false && !equality.Semantic.DeepEqual(existing.Endpoints, wanted.Endpoints) {",
		},
		{
			name: "endpoints-of-the-target-itself", file: services + "desired.go", test: served,
			from: "ptr.Deref(endpoint.NodeName, \"\") != d.nodeName {",
			to:   "ptr.Deref(endpoint.NodeName, \"\") != d.nodeName || true {",
		},
		{
			name: "endpoints-for-others", file: services + "reconcile.go", test: served,
			from: "	if err == nil && !merged(from.service) {", to: "	if !merged(from.service) {",
		},
		{
			name: "spec-not-changed", file: services + "changes.go", test: served,
			from: "	if equality.Semantic.DeepEqual(existing, wanted) {",
			to:   "	if true || equality.Semantic.DeepEqual(existing, wanted) {",
		},
		{
			name: "patches-what-others-took", file: writer + "patch.go", test: served,
			from: "patch.TestUID(there.GetUID()), w.testOurs()}", to: "patch.TestUID(there.GetUID())}",
		},
		{
			name: "mark-stays-away", file: writer + "patch.go", test: served,
			from: "	if _, marked := annotations[v1alpha1.AnnotationFollowedBy]; marked {",
			to:   "	if _, marked := annotations[v1alpha1.AnnotationFollowedBy]; marked || true {",
		},
		{
			name: "collects-what-others-took", file: collector + "endpoints.go", test: served,
			from: "	only := metav1.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}",
			to:   "	only := metav1.Preconditions{UID: &slice.UID}",
		},
		{
			name: "refusal-unreported", file: services + "copier.go", test: served,
			from: "	if news && about != nil {", to: "	if false && news && about != nil {",
		},
		{
			name: "deletes-what-others-took", file: services + "reconcile.go", test: served,
			from: "	return c.writer.Delete(ctx, object, writer.AsSeen(there))",
			to: "	only := writer.AsSeen(there)\n	only.ResourceVersion = nil\n" +
				"	return c.writer.Delete(ctx, object, only)",
		},
		{
			name: "account-made-anew", file: writer + "patch.go", test: served,
			from: "	if len(found.GetAnnotations()) == 0 {", to: "	if false {",
		},
		{
			name: "certificate-not-kept", file: services + "ingress.go", test: served,
			from: "	if c.follower.options.KeepSecrets == nil {",
			to:   "	if true || c.follower.options.KeepSecrets == nil {",
		},
	}
}
