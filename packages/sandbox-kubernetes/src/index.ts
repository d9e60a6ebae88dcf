export type { ClusterOptions } from './cluster/cluster-options.ts'
export { createKubernetesRuntime, type KubernetesOptions } from './drivers/kubernetes.ts'
export type { KubernetesRuntimesOptions, KubernetesSettings } from './settings.ts'
