import { join } from 'node:path'
import type { CallView, Identity } from '@gantry/contract'
import { createWasmRuntime } from '@gantry/sandbox-wasm'
import type { DefinedTool } from 'gantry'
import type { LoadedConfig } from '../../packages/service/src/config/config.ts'
import { serviceSettings } from '../../packages/service/src/config/service-settings.ts'
import { createSnapshot } from '../../packages/service/src/config/snapshots.ts'
import { createBus } from '../../packages/service/src/observe/bus.ts'
import { startService } from '../../packages/service/src/serve/start.ts'
import { folderArtifacts } from '../../packages/service/src/storage/artifacts/folder.ts'
import { openPglite } from '../../packages/service/src/storage/databases/pglite.ts'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { faultTools } from './tools.ts'

/** Messages to a process with a whole service and no HTTP server, which gets its programs over IPC. */
export type NodeOrder =
  | { readonly do: 'start'; readonly folder: string; readonly url?: string }
  | { readonly do: 'run'; readonly name: string; readonly args: { readonly code: string; readonly language: string } }
  | { readonly do: 'stop' }

export type NodeNews =
  /** `acting`: it has called a tool. */
  | { readonly is: 'loaded' | 'started' | 'acting' }
  | { readonly is: 'ended'; readonly name: string; readonly view: CallView }

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: ['*'] }
const never = new AbortController().signal
const say = (news: NodeNews): void => void process.send?.(news)

/** Reports the first call of a tool. */
let silent = true
function saying(defined: DefinedTool): DefinedTool {
  const { run } = defined
  if (run === undefined) return defined
  return {
    ...defined,
    run(...of) {
      if (silent) say({ is: 'acting' })
      silent = false
      return run(...of)
    },
  }
}

async function start({ folder, url }: Extract<NodeOrder, { do: 'start' }>) {
  const database = await (url === undefined ? openPglite({ folder }) : openPostgres({ url }))
  const service = { leaseMs: 1_500, slots: 4, maxDeaths: 1_000 }
  const settings = serviceSettings({ service, ...(url === undefined ? {} : { databaseUrl: url }) }, folder)
  const bus = createBus()
  // One thread is enough for a short-lived process.
  const runtimes = { use: [createWasmRuntime({ threads: 1 })] }
  const options = { tools: faultTools(join(folder, 'ledger')).map(saying), runtimes }
  const loaded = (): LoadedConfig => ({
    file: undefined,
    service: settings,
    builtins: false,
    demo: false,
    warnings: [],
    options,
  })
  const running = await startService({
    settings,
    bus,
    database: database.asService(),
    files: folderArtifacts({ folder: join(folder, 'artifacts') }),
    snapshot: async (additions) => createSnapshot(loaded(), additions, bus),
    callbackKey: async () => undefined,
  })
  return { ...running, close: () => database.close() }
}

let running: Awaited<ReturnType<typeof start>> | undefined
process.on('message', async (order: NodeOrder) => {
  if (order.do === 'start') {
    running = await start(order)
    say({ is: 'started' })
  } else if (order.do === 'run' && running !== undefined) {
    const { service } = running
    const { name, args } = order
    const input = { kind: 'call', tool: 'code:program', args, idempotencyKey: name } as const
    const { callId } = await service.submit(input, ada)
    for (;;) {
      await service.wait(callId, ada, 1_000, never)
      const view = await service.call(callId, ada)
      if (view.result !== undefined) return say({ is: 'ended', name, view })
    }
  } else {
    await running?.stop(5_000)
    await running?.close()
    process.disconnect()
  }
})
say({ is: 'loaded' })
