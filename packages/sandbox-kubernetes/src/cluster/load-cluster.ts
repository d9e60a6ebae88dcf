import { ToolError } from '@gantry/contract'
import type { Cluster } from './cluster.ts'
import type { ClusterOptions } from './cluster-options.ts'

/** Version of the client that is tested, and that package.json names. */
export const client = '@kubernetes/client-node@2.0.1'

/**
 * Loads the client of Kubernetes and opens the cluster. The client is a third of what `gantry` would install, so that
 * it is an optional package, loaded here only. Rejects with RUNTIME_UNAVAILABLE when it is not installed.
 */
export async function loadCluster(options: ClusterOptions): Promise<Cluster> {
  const { openCluster } = await import('./cluster.ts').catch((cause: unknown) => {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND')) throw cause
    const reason = 'The runtime kubernetes needs the Kubernetes client, which is not installed.'
    const remedy = `Run \`npm install ${client}\` beside gantry.`
    throw new ToolError('RUNTIME_UNAVAILABLE', `${reason} ${remedy}`, { details: { reason, remedy }, cause })
  })
  return openCluster(options)
}
