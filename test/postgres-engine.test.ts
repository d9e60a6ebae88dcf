import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { hasProgram } from '../scripts/engines/packages.ts'
import { startPostgres } from '../scripts/engines/postgres.ts'

const options = { skip: !hasProgram('postgres') && 'PostgreSQL is not installed' }
const engine = join(dirname(import.meta.dirname), 'scripts/engines/postgres.ts')

/** Whether a server listens at the URL. */
async function answers(url: string): Promise<boolean> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const connected = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return connected
}

async function gone(url: string, folder: string): Promise<void> {
  while (existsSync(folder) || (await answers(url))) await pause(20)
}

test(
  'a killed server restarts on the same folder and port, and a stopped one leaves nothing behind',
  options,
  async () => {
    const server = await startPostgres()
    const { pid, url, folder } = server
    assert.ok(await answers(url))
    server.kill()
    while (await answers(url)) await pause(20)
    await server.restart()
    assert.notEqual(server.pid, pid)
    assert.ok(await answers(url))
    server.pause()
    await server.stop()
    await server.stop()
    assert.equal(existsSync(folder), false)
    assert.equal(await answers(url), false)
  },
)

for (const signal of ['SIGINT', 'SIGKILL'] as const) {
  test(`a server ends with the process that started it, on ${signal}`, options, async (t) => {
    const program = `const { startPostgres } = await import(${JSON.stringify(engine)})
      const { url, folder } = await startPostgres()
      console.log(JSON.stringify({ url, folder }))
      setInterval(() => {}, 1000)`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => child.kill('SIGKILL'))
    const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    const { url, folder } = JSON.parse(line) as { url: string; folder: string }
    assert.ok(await answers(url))
    child.kill(signal)
    await gone(url, folder)
  })
}

test("a setting that the server refuses is reported with the server's text, and nothing is left", options, async () => {
  await assert.rejects(startPostgres({ settings: { max_connections: 'many' } }), /max_connections/)
})
