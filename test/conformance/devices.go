package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// deviceDriver is that of test/devices, and its account and rights.
	deviceDriver = "lamps.example.com"
	deviceImage  = "localhost/devices:dev"
	// deviceClass provides the resource example.com/lamp.
	deviceClass = "lamp"
)

// installDevices runs a driver of devices on the nodes of both clusters, if both have containerd 2.
func (l *lab) installDevices(ctx context.Context) error {
	l.containerd2 = true
	for _, c := range []*cluster{l.source, l.target} {
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: c.name + "-node"}, node); err != nil {
			return fmt.Errorf("getting the node of %s: %w", c.name, err)
		}
		if strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, "containerd://1.") {
			l.containerd2 = false
			return nil
		}
	}
	for _, c := range []*cluster{l.source, l.target} {
		for _, object := range deviceObjects(c.name) {
			if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating %T %s in %s: %w", object, object.GetName(), c.name, err)
			}
		}
		if err := until(ctx, patience, func(ctx context.Context) error { return c.hasDevices(ctx) }); err != nil {
			return fmt.Errorf("waiting for the devices of %s: %w (`make devices-image` builds the driver's image, "+
				"and `clusters load .local/images/devices.tar` puts it on the nodes)", c.name, err)
		}
	}
	return nil
}

// removeDevices removes the driver and its devices, and waits until the driver has ended: the next run must not take it
// for its own.
func (l *lab) removeDevices(ctx context.Context) error {
	if !l.containerd2 {
		return nil
	}
	var errs []error
	for _, c := range []*cluster{l.source, l.target} {
		objects := deviceObjects(c.name)
		for i := range objects { // the driver goes first, while it has its rights
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, objects[len(objects)-1-i])))
		}
		errs = append(errs, until(ctx, patience, func(ctx context.Context) error {
			err := c.Get(ctx, driverKey(), &corev1.Pod{})
			if err == nil {
				return fmt.Errorf("the driver of devices of %s has not ended", c.name)
			}
			return client.IgnoreNotFound(err)
		}))
	}
	return errors.Join(errs...)
}

// hasDevices returns an error until the cluster has devices.
func (c *cluster) hasDevices(ctx context.Context) error {
	slices := &resourcev1.ResourceSliceList{}
	if err := c.List(ctx, slices, client.MatchingFields{"spec.driver": deviceDriver}); err != nil {
		return err
	}
	if len(slices.Items) > 0 {
		return nil
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, driverKey(), pod); err != nil {
		return err
	}
	return fmt.Errorf("there is no ResourceSlice. The driver: %v", pod.Status.ContainerStatuses)
}

func driverKey() client.ObjectKey {
	return client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: deviceDriver}
}

// deviceObjects are the driver of a cluster's node, all that it needs, and the class of its devices.
func deviceObjects(clusterName string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: deviceDriver}
	global := metav1.ObjectMeta{Name: deviceDriver}
	folder := func(name, path string, kind corev1.HostPathType) (corev1.Volume, corev1.VolumeMount) {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind},
		}}, corev1.VolumeMount{Name: name, MountPath: path}
	}
	kubelet, kubeletMount := folder("kubelet", "/var/lib/kubelet", corev1.HostPathDirectory)
	cdi, cdiMount := folder("cdi", "/run/cdi", corev1.HostPathDirectory)
	return []client.Object{
		&resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: deviceClass},
			Spec: resourcev1.DeviceClassSpec{
				ExtendedResourceName: new("example.com/lamp"),
				Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
					Expression: "device.driver == '" + deviceDriver + "'",
				}}},
			},
		},
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.ClusterRole{ObjectMeta: global, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{resourcev1.GroupName}, Resources: []string{"resourceslices"}, Verbs: []string{"*"}},
			{APIGroups: []string{resourcev1.GroupName}, Resources: []string{"resourceclaims"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: global,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: deviceDriver},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: deviceDriver},
			},
		},
		&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			NodeName: clusterName + "-node", ServiceAccountName: deviceDriver,
			Containers: []corev1.Container{{
				Name: "driver", Image: deviceImage, ImagePullPolicy: corev1.PullNever,
				Env:          []corev1.EnvVar{{Name: "NODE", Value: clusterName + "-node"}},
				VolumeMounts: []corev1.VolumeMount{kubeletMount, cdiMount},
			}},
			Volumes: []corev1.Volume{kubelet, cdi},
		}},
	}
}
