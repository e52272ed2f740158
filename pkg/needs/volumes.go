package needs

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func (c collector) volume(v *corev1.VolumeSource) {
	if s := v.ConfigMap; s != nil {
		c.add(ConfigMaps, s.Name, ptr.Deref(s.Optional, false))
	}
	if s := v.Secret; s != nil {
		c.add(Secrets, s.SecretName, ptr.Deref(s.Optional, false))
	}
	if s := v.PersistentVolumeClaim; s != nil {
		c.add(PersistentVolumeClaims, s.ClaimName, false)
	}
	if s := v.Projected; s != nil {
		c.projected(s.Sources)
	}
	if s := v.AzureFile; s != nil {
		c.add(Secrets, s.SecretName, false)
	}
	for _, ref := range driverSecrets(v) {
		if ref != nil {
			c.add(Secrets, ref.Name, false)
		}
	}
}

func (c collector) projected(sources []corev1.VolumeProjection) {
	for i := range sources {
		if s := sources[i].ConfigMap; s != nil {
			c.add(ConfigMaps, s.Name, ptr.Deref(s.Optional, false))
		}
		if s := sources[i].Secret; s != nil {
			c.add(Secrets, s.Name, ptr.Deref(s.Optional, false))
		}
	}
}

// driverSecrets returns the references to Secrets for volume drivers.
func driverSecrets(v *corev1.VolumeSource) []*corev1.LocalObjectReference {
	var refs []*corev1.LocalObjectReference
	if s := v.CSI; s != nil {
		refs = append(refs, s.NodePublishSecretRef)
	}
	if s := v.CephFS; s != nil {
		refs = append(refs, s.SecretRef)
	}
	if s := v.Cinder; s != nil {
		refs = append(refs, s.SecretRef)
	}
	if s := v.FlexVolume; s != nil {
		refs = append(refs, s.SecretRef)
	}
	if s := v.ISCSI; s != nil {
		refs = append(refs, s.SecretRef)
	}
	if s := v.RBD; s != nil {
		refs = append(refs, s.SecretRef)
	}
	if s := v.ScaleIO; s != nil {
		refs = append(refs, s.SecretRef)
	}
	if s := v.StorageOS; s != nil {
		refs = append(refs, s.SecretRef)
	}
	return refs
}
