import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { main } from '../packages/gantry/src/main.ts'
import { readAddress, type ServiceAddress } from '../packages/service/src/config/service-files.ts'
import { serviceRound } from './service-round.ts'

/**
 * `npm start`: runs `gantry serve` on the first free port from 7420 on, until Ctrl-C. In CI, where nothing sends
 * Ctrl-C, it makes each kind of request once and ends.
 */
const firstPort = 7420
const data = resolve(process.env.GANTRY_DATA || '.gantry')
const unattended = process.env.CI !== undefined && process.env.CI !== '' && !process.stdin.isTTY

const there = unattended ? undefined : await running(data)
if (there !== undefined) tell(there)
else {
  const port = process.env.GANTRY_PORT || String(await freePort(firstPort))
  if (unattended) process.exitCode = await serviceRound(port)
  else await main(['serve', '--port', port])
}

/** The service that runs on the folder already. */
async function running(folder: string): Promise<ServiceAddress | undefined> {
  const address = await readAddress(folder)
  try {
    const signal = AbortSignal.timeout(2_000)
    return address !== undefined && (await fetch(`${address.url}/healthz`, { signal })).ok ? address : undefined
  } catch {
    return undefined
  }
}

function tell({ url, pid }: ServiceAddress): void {
  const lines = [
    `It runs already: ${url}, process ${pid}, everything kept in ${data}.`,
    'To try it:',
    `  npx gantry run demo:add '{"a":5,"b":3}'`,
    '  npx gantry calls',
    `  curl -s ${url}/v1/tools -H "Authorization: Bearer $(cat ${join(data, 'key')})"`,
    `To end it: kill ${pid}`,
  ]
  console.log(lines.join('\n'))
}

async function freePort(from: number): Promise<number> {
  for (let port = from; port < from + 100; port += 1) if (await isFree(port)) return port
  return 0
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
