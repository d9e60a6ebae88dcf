import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createKubernetesRuntime } from '@gantry/sandbox-kubernetes'
import { client } from './load-cluster.ts'

test('the version of the client that the remedy names is the one that the package was tested with', () => {
  const { peerDependencies } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
  assert.equal(client, `@kubernetes/client-node@${peerDependencies['@kubernetes/client-node']}`)
})

test('a cluster that does not answer makes the runtime unavailable, with the client loaded by the probe', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-kubeconfig-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const kubeconfig = join(folder, 'config.json')
  const config = {
    // Nothing listens on port 1.
    clusters: [{ name: 'none', cluster: { server: 'http://127.0.0.1:1' } }],
    contexts: [{ name: 'none', context: { cluster: 'none', user: 'none' } }],
    users: [{ name: 'none', user: {} }],
    'current-context': 'none',
  }
  writeFileSync(kubeconfig, JSON.stringify(config))
  const runtime = createKubernetesRuntime({ kubeconfig })
  t.after(() => runtime.close())
  const probe = await runtime.probe(AbortSignal.timeout(20_000))
  assert.equal(probe.available, false)
  assert.match(
    probe.available ? '' : probe.reason,
    /^The Kubernetes API at http:\/\/127\.0\.0\.1:1 cannot be reached\.$/,
  )
})
