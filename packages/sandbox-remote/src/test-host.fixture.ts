import { type TestContext, test } from 'node:test'
import { noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import { createProcessRuntime, type Runtime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import type { RemoteOptions } from './client/remote.ts'
import type { ServerRecord } from './server/record.ts'
import { createRuntimeServer, type RuntimeServer, type RuntimeServerOptions } from './server/runtime-server.ts'

export const testKey = { id: 'test', key: 'k'.repeat(48) }

/** A runtime server on loopback with the runtime `process`. */
export interface TestHost extends RuntimeServer {
  /** How a client reaches it. */
  readonly remote: RemoteOptions
  readonly records: readonly ServerRecord[]
}

export async function startHost(
  options: Partial<RuntimeServerOptions> = {},
  own: readonly Runtime[] = [createProcessRuntime()],
  settings: Omit<Parameters<typeof createRuntimes>[0], 'runtimes'> = {},
): Promise<TestHost> {
  const runtimes = createRuntimes({ ...settings, runtimes: own })
  const records: ServerRecord[] = []
  const onRecord = (record: ServerRecord): void => void records.push(record)
  const server = await createRuntimeServer({ runtimes, keys: [testKey], port: 0, onRecord, ...options })
  return {
    ...server,
    records,
    remote: { url: server.url, keyId: testKey.id, key: testKey.key },
    async close() {
      await server.close()
      await runtimes.close()
    },
  }
}

/** A runtime that closes its host with itself. */
export function withHost(runtime: Runtime, host: Pick<RuntimeServer, 'close'>): Runtime {
  const close = async (): Promise<void> => {
    await runtime.close()
    await host.close()
  }
  // Not a spread: `isolation` is a getter.
  return Object.create(runtime, { close: { value: close } }) as Runtime
}

/** A test that needs the runtime `process` on its hosts; skipped, with the reason, where that cannot be. */
export function hostTest(title: string, body: (t: TestContext) => Promise<void>): void {
  test(title, noBubblewrap === undefined ? {} : { skip: noBubblewrap }, body)
}
