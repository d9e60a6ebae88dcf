import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '@gantry/client'
import type { Caller } from './queue-peers.ts'

const command = join(import.meta.dirname, '..', 'packages', 'gantry', 'bin', 'gantry.mjs')
const startMs = 30_000

/** `gantry serve` in a separate process, called over HTTP. */
export async function httpCaller({ url, slots }: { readonly url: string; readonly slots: number }): Promise<Caller> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  const own = { GANTRY_DATA: join(folder, 'data'), GANTRY_PORT: '0', GANTRY_LOG: 'warn' }
  const env = { ...process.env, ...own, DATABASE_URL: url, TOOL_EXECUTOR_MAX_WORKERS: String(slots) }
  const child = spawn(process.execPath, [command, 'serve'], { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] })
  const gone = once(child, 'exit')
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = `${said}${text}`.slice(-2_000)
  })
  const address = join(folder, 'data', 'service.json')
  const late = performance.now() + startMs
  while (!existsSync(address)) {
    if (child.exitCode !== null || performance.now() > late) throw new Error(`gantry serve did not start: ${said}`)
    await pause(50)
  }
  const service = JSON.parse(readFileSync(address, 'utf8')) as { readonly url: string }
  const client = createClient({ url: service.url, key: readFileSync(join(folder, 'data', 'key'), 'utf8').trim() })
  return {
    async call(n) {
      const { status } = await client.call('demo:add', { a: n, b: 1 })
      if (status !== 'ok') throw new Error(`a call ended as ${status}`)
    },
    async close() {
      child.kill()
      await gone
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
