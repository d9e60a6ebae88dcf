import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Outcome } from '@gantry/sandbox'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { limits } from './limits.fixture.ts'
import { qemuOptions } from './machines.fixture.ts'

const signal = AbortSignal.timeout(600_000)
const runtime = createQemuRuntime(qemuOptions())
after(() => runtime.close())

async function run(language: string, code: string): Promise<Outcome> {
  const sandbox = await runtime.open({ limits, network: 'none', language }, signal)
  try {
    return await sandbox.run({ program: { kind: 'code', language, code } }, signal)
  } finally {
    await sandbox.dispose()
  }
}

const pythonDraws = `
import os, random, secrets, tempfile, time, uuid
random_again = random.Random().random()
with open('/proc/sys/kernel/random/uuid') as file: kernel = file.read().strip()
return [os.urandom(16).hex(), random.random(), random_again, secrets.token_hex(16), str(uuid.uuid4()),
        str(uuid.uuid1()), next(tempfile._get_candidate_names()), kernel, str(time.time_ns())]
`

test('attack 140: two Pythons from one snapshot repeat no random number, and have the time of this machine', async () => {
  const before = Date.now()
  const [one, other] = [await run('python', pythonDraws), await run('python', pythonDraws)]
  const after = Date.now()
  const [first, second] = [one.value, other.value]
  assert.ok(Array.isArray(first) && Array.isArray(second), Buffer.from(one.stderr.bytes).toString())
  assert.deepEqual(
    first.filter((drawn) => second.includes(drawn)),
    [],
  )
  for (const drawn of [first, second]) {
    const now = Number(BigInt(String(drawn.at(-1))) / 1_000_000n)
    assert.ok(now >= before - 2_000 && now <= after + 2_000, `${now} is not between ${before} and ${after}`)
  }
})

const nodeDraws = `
const { randomBytes, randomUUID } = await import('node:crypto')
return [Math.random(), randomBytes(16).toString('hex'), randomUUID(), crypto.getRandomValues(new Uint32Array(4)).join()]
`

test('attack 140: two Nodes from one snapshot repeat no random number', async () => {
  const [one, other] = [await run('javascript', nodeDraws), await run('javascript', nodeDraws)]
  const [first, second] = [one.value, other.value]
  assert.ok(Array.isArray(first) && Array.isArray(second), Buffer.from(one.stderr.bytes).toString())
  assert.deepEqual(
    first.filter((drawn) => second.includes(drawn)),
    [],
  )
})
