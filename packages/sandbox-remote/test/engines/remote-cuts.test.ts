import assert from 'node:assert/strict'
import { after } from 'node:test'
import { testRuntime } from '@gantry/conformance/internal/runtime'
import { lackingPrograms } from '@gantry/conformance/internal/sandbox-test'
import { createRemoteRuntime } from '@gantry/sandbox-remote'
import { type CuttingProxy, startCuttingProxy } from '../../src/cutting-proxy.fixture.ts'
import { startHost, withHost } from '../../src/test-host.fixture.ts'

let proxy: CuttingProxy | undefined

/** Bytes after which connections are cut, by turns: in the head of a response, in a frame, after several. */
const budgets = [150, 5_000, 800, 60_000, 2_000_000]
/** All connections are also cut at this interval, whatever they carry. */
const everyMs = 400

testRuntime(
  'remote through cuts',
  async () => {
    const host = await startHost()
    let connections = 0
    const next = (): number => budgets[connections++ % budgets.length] ?? 0
    const cutting = await startCuttingProxy(Number(new URL(host.url).port), next)
    proxy = cutting
    const cuts = setInterval(() => {
      cutting.cut()
      cutting.restore()
    }, everyMs)
    const runtime = createRemoteRuntime({ ...host.remote, url: `http://127.0.0.1:${cutting.port}` })
    const close = async (): Promise<void> => {
      clearInterval(cuts)
      await cutting.close()
      await host.close()
    }
    return { runtime: withHost(runtime, { close }) }
  },
  { ...lackingPrograms, 'javascript over tools': 'JavaScript over tools is in the wasm runtime' },
)

after(() => assert.ok((proxy?.cuts ?? 0) > 20, `${proxy?.cuts} cuts`))
