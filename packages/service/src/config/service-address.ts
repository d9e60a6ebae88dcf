import { randomBytes } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Where a running service can be reached, for commands on the same machine. */
export interface ServiceAddress {
  readonly url: string
  readonly pid: number
  /** The configuration file that it runs under; null when there is none. */
  readonly config: string | null
}

export function addressFile(data: string): string {
  return join(data, 'service.json')
}

/** Written whole, for this user alone. */
export async function writeAddress(data: string, address: ServiceAddress): Promise<void> {
  const file = addressFile(data)
  const draft = `${file}.${randomBytes(4).toString('hex')}`
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await writeFile(draft, `${JSON.stringify(address)}\n`, { mode: 0o600 })
  await rename(draft, file)
}

/** Removes the address, unless another service has written its own since. */
export async function removeAddress(data: string, { pid }: ServiceAddress): Promise<void> {
  const there = await readAddress(data)
  if (there?.pid === pid) await rm(addressFile(data), { force: true })
}

/** Undefined when there is none, or nothing that could be one. */
export async function readAddress(data: string): Promise<ServiceAddress | undefined> {
  try {
    const { url, pid, config } = JSON.parse(await readFile(addressFile(data), 'utf8'))
    if (typeof url !== 'string' || typeof pid !== 'number') return undefined
    return { url, pid, config: typeof config === 'string' ? config : null }
  } catch {
    return undefined
  }
}

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.[0-9.]+$/.test(host)
}
