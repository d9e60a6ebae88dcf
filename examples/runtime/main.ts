// Code and commands in sandboxes: what they may use, what they may reach, what comes back, and what is refused.
import { builtinTools, createExecutor, defineTool, type JsonObject, type Result } from 'gantry'

// A tool that is a program: it reads its arguments as JSON from stdin, and writes progress and its value to descriptor 3.
const wordCount = defineTool({
  namespace: 'text',
  name: 'count',
  description: 'Counts the words of a text.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  profile: 'standard',
  backends: [
    {
      kind: 'sandboxed',
      language: 'python',
      code: [
        'import json, os, sys',
        'text = json.load(sys.stdin)["text"]',
        'os.write(3, b\'{"progress": 1, "total": 1, "message": "counted"}\\n\')',
        'return {"words": len(text.split())}',
      ].join('\n'),
    },
  ],
})
const gantry = createExecutor({ tools: [...builtinTools(), wordCount] })
const run = (tool: string, args: JsonObject): Promise<Result> => gantry.run(tool, args)

console.log('the same answer from four languages')
const programs = {
  python: 'print(6*7)',
  javascript: 'console.log(6*7)',
  typescript: 'const n: number = 6*7; console.log(n)',
  bash: 'echo $((6*7))',
}
for (const [language, code] of Object.entries(programs)) {
  const { status, output, runtime } = await run('code:run', { language, code })
  console.log(' ', language, status, output, 'in', runtime?.kind)
}

console.log('in WebAssembly, where there is no process at all')
const inWasm = await run('code:run', {
  language: 'javascript',
  code: 'return [1, 2, 3].map((n) => n * n)',
  profile: 'wasm',
})
console.log(' ', inWasm.status, inWasm.output, inWasm.runtime)

console.log('files go in and come out')
const files = await run('shell:run', { script: 'sort names.txt > sorted.txt', files: { 'names.txt': 'b\na\n' } })
console.log(' ', files.status, files.output)

console.log('what it may not do')
const secret = await run('shell:run', { argv: ['cat', '/etc/shadow'] })
console.log('  reading /etc/shadow ends with', (secret.output as JsonObject).exitCode)
const loop = await run('code:run', { language: 'python', code: 'while True: pass', limits: { cpuMs: 200 } })
console.log('  a busy loop is', loop.status, loop.error?.code, loop.usage.hit)
const sleep = await run('shell:run', { argv: ['sleep', '60'], limits: { wallMs: 200 } })
console.log('  a long sleep is', sleep.status, sleep.error?.code, sleep.usage.hit)

console.log('never weaker than asked')
const host = await run('code:run', { language: 'bash', code: 'id -u', runtime: 'unsafe_host' })
console.log(' ', host.status, host.error?.code)

console.log('a tool that is a program in a sandbox, streamed')
for await (const event of gantry.stream('text:count', { text: 'to be or not to be' })) {
  if (event.kind === 'progress') console.log('  progress', event.progress, 'of', event.total, event.message)
  if (event.kind === 'done') console.log('  done', event.result.output)
}

await gantry.close()
