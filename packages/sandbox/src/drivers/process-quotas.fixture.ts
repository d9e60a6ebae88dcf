import { readFileSync } from 'node:fs'
import { runOnce } from '@gantry/conformance/internal/attacks/attack'
import { manyDescriptors } from '@gantry/conformance/internal/attacks/resources'
import { createProcessRuntime } from './process.ts'

/** Runs attack 58 as the current user and prints the result: `node process-quotas.fixture.ts <root>`. */
const [, , root = ''] = process.argv
const notes: string[] = []
const runtime = createProcessRuntime({ root })
const ground = {
  kind: 'process',
  runtime,
  unguarded: runtime,
  folder: root,
  note: (text: string) => void notes.push(text),
  inside: (...[job, spec]: Parameters<Parameters<typeof manyDescriptors.attempt>[0]['inside']>) =>
    runOnce(runtime, job, spec),
  outside: () => Promise.reject(new Error('Nothing runs without a guard here.')),
}
try {
  const end = await manyDescriptors.attempt(ground)
  const uid = /^Uid:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'latin1'))?.[1]
  console.log(JSON.stringify({ end, uid: Number(uid), notes }))
} finally {
  await runtime.close()
}
