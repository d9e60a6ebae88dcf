import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { kubeconfig } from './cluster.fixture.ts'
import { clusterApi } from './cluster-api.fixture.ts'

/** A namespace for one file of tests, because another file that runs beside it on the same cluster counts pods too. */
export interface OwnNamespace {
  readonly name: string
  /** A kubeconfig whose context has the namespace; children of this process find it as the cluster of the tests. */
  readonly kubeconfig: string
  /** The folder of the cluster and of its node. */
  readonly cluster: string
}

const createMs = 60_000

/** Creates the namespace, which is deleted after the tests of the file. */
export async function ownNamespace(): Promise<OwnNamespace> {
  const shared = kubeconfig()
  const api = clusterApi(shared)
  const name = `test-${randomBytes(6).toString('hex')}`
  await api('POST', '/api/v1/namespaces', { metadata: { name } })
  const folder = mkdtempSync(join(tmpdir(), 'gantry-namespace-'))
  after(async () => {
    await api('DELETE', `/api/v1/namespaces/${name}`)
    rmSync(folder, { recursive: true, force: true })
  })
  const config = JSON.parse(readFileSync(shared, 'utf8'))
  config.contexts[0].context.namespace = name
  const own = join(folder, 'kubeconfig')
  writeFileSync(own, JSON.stringify(config), { mode: 0o600 })
  // Pods are refused until the account of their namespace is there.
  const until = performance.now() + createMs
  const account = `/api/v1/namespaces/${name}/serviceaccounts/default`
  while (!(await api('GET', account).then(Boolean, () => false))) {
    if (performance.now() > until) throw new Error(`The namespace ${name} has no account after ${createMs} ms.`)
    await pause(100)
  }
  process.env.GANTRY_TEST_KUBECONFIG = own
  return { name, kubeconfig: own, cluster: dirname(shared) }
}
