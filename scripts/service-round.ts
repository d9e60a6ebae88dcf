import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const program = join(dirname(import.meta.dirname), 'packages/gantry/bin/gantry.mjs')

/** Starts a service, makes each kind of request once, prints the responses, and stops it; returns the exit code. */
export async function serviceRound(port: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-round-'))
  say(`$ gantry serve --port ${port} --data ${folder}`)
  const args = [program, 'serve', '--port', port, '--data', folder]
  const env = { ...process.env, GANTRY_LOG: 'error' }
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? 1)))
  try {
    await round(await readyUrl(child.stdout.setEncoding('utf8')), join(folder, 'key'))
    say('\nkill -TERM: it takes no more calls, ends those that run, and closes.')
    child.kill('SIGTERM')
    const code = await ended
    say(`exit code ${code}`)
    return code
  } finally {
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
}

async function readyUrl(lines: AsyncIterable<string>): Promise<string> {
  let printed = ''
  for await (const text of lines) {
    printed += text
    const [, url] = /^listening on (\S+)\nready$/m.exec(printed) ?? []
    if (url === undefined) continue
    say(printed.trimEnd())
    return url
  }
  throw new Error('The service ended before it was ready.')
}

async function round(url: string, keyFile: string): Promise<void> {
  const key = readFileSync(keyFile, 'utf8').trim()
  const ask = async (what: string, expected: number, path: string, body?: object): Promise<string> => {
    const method = body === undefined ? 'GET' : 'POST'
    say(`\n${what}\n$ ${method} ${path}${body === undefined ? '' : ` ${JSON.stringify(body)}`}`)
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const response = await fetch(`${url}${path}`, { method, headers, ...sent })
    const text = await response.text()
    if (response.status !== expected) throw new Error(`${path} answered ${response.status}, not ${expected}: ${text}`)
    return text
  }
  const show = (text: string): void => say(text.trimEnd().slice(0, 2_000))
  const add = { tool: 'demo:add', args: { a: 5, b: 3 } }

  show(await ask('A call and its Result', 200, '/v1/calls', { ...add, idempotencyKey: 'sum' }))
  show(
    await ask('The same key with other arguments', 409, '/v1/calls', {
      ...add,
      args: { a: 1, b: 1 },
      idempotencyKey: 'sum',
    }),
  )
  const countdown = { tool: 'demo:countdown', args: { from: 2, delayMs: 50 }, waitMs: 0 }
  const background = await ask('A call in the background', 202, '/v1/calls', countdown)
  show(background)
  show(await ask('Its events as they come', 200, `/v1/calls/${idIn(background)}/events`))
  const sleep = { tool: 'demo:sleep', args: { ms: 60_000 }, waitMs: 0 }
  const sleeping = await ask('A call that takes a minute', 202, '/v1/calls', sleep)
  show(sleeping)
  await ask('Cancelled', 200, `/v1/calls/${idIn(sleeping)}/cancel`, {})
  show(await ask('How it ended', 200, `/v1/calls/${idIn(sleeping)}?waitMs=10000`))
  const steps = [
    { id: 'sum', ...add },
    { tool: 'demo:echo', args: { value: 'sum {{steps.sum.output.result}}' } },
  ]
  const { status, output } = JSON.parse(await ask('A chain', 200, '/v1/chains', { steps }))
  show(JSON.stringify({ status, output }))
  show(await ask('Dead letters', 200, '/v1/dead-letters'))
  const metrics = await ask('Metrics', 200, '/metrics')
  show(
    metrics
      .split('\n')
      .filter((line) => line.startsWith('tool_executor_tasks_total'))
      .join('\n'),
  )
}

function idIn(accepted: string): string {
  return (JSON.parse(accepted) as { readonly callId: string }).callId
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
