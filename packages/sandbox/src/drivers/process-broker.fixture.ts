import { closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { testCertificate, testKey } from '../../../core/src/egress/egress.fixture.ts'

export interface ReceivedRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

/** An HTTPS server on loopback that records its requests; `answer` may respond later. */
export async function recordingServer(answer: (request: ReceivedRequest, response: ServerResponse) => void) {
  const requests: ReceivedRequest[] = []
  const server: Server = createServer({ key: testKey, cert: testCertificate }, (request: IncomingMessage, response) => {
    request.resume()
    const one = { path: request.url ?? '', headers: request.headers }
    requests.push(one)
    answer(one, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = (): void => {
    server.closeAllConnections()
    server.close()
  }
  return { requests, origin, close }
}

/** Echoes the request headers in response headers and body, as a debugging server does. */
export function echo({ headers }: ReceivedRequest, response: ServerResponse): void {
  response.setHeader('x-echo', String(headers.authorization ?? ''))
  response.end(JSON.stringify(headers))
}

/** The certificate of the test servers, for a file in a workspace. */
export const serverCertificate = new TextEncoder().encode(testCertificate)

/**
 * A program that searches everything it can read for texts: memory, environment and command line of every process, and
 * all files outside the system. The texts arrive masked on stdin, so the program never holds one in one piece.
 */
export const finder = `
import json, os, re, sys
def pattern(masked):
    return re.compile(b''.join(b'[\\\\x%02x]' % (byte ^ 0x55) for byte in bytes.fromhex(masked)))
wanted = {name: pattern(masked) for name, masked in json.load(sys.stdin).items()}
found = {name: [] for name in wanted}
read = {'bytes': 0, 'memory': 0, 'files': 0}
def look(data, place):
    read['bytes'] += len(data)
    for name, one in wanted.items():
        if one.search(data): found[name].append(place)
def memory(pid):
    for line in open('/proc/%s/maps' % pid):
        fields = line.split()
        if not fields[1].startswith('r') or (len(fields) > 5 and fields[5].startswith('[v')): continue
        start, end = (int(part, 16) for part in fields[0].split('-'))
        with open('/proc/%s/mem' % pid, 'rb', 0) as file:
            file.seek(start)
            look(file.read(end - start), 'memory of %s' % pid)
            read['memory'] += 1
def quietly(work, *args):
    try: work(*args)
    except OSError: pass
def file(path):
    with open(path, 'rb') as opened: look(opened.read(), path)
    read['files'] += 1
def search():
    for pid in [name for name in os.listdir('/proc') if name.isdigit()]:
        for name in ['environ', 'cmdline', 'comm', 'maps']: quietly(file, '/proc/%s/%s' % (pid, name))
        quietly(memory, pid)
    for top in ['/work', '/gantry', '/etc', '/tmp', '/run', '/dev/shm', '/var']:
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.samefile(os.path.dirname(path), '/dev'): quietly(file, path)
`

/** The stdin of the finder. */
export function masked(texts: { readonly [name: string]: string }): Uint8Array {
  const hide = (text: string): string => Buffer.from(Buffer.from(text).map((byte) => byte ^ 0x55)).toString('hex')
  return Buffer.from(
    JSON.stringify(Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, hide(text)]))),
  )
}

/** Searches the memory of a sandbox's processes from outside; `mark` identifies the sandbox. */
export function inMemory(
  text: string,
  mark: string,
): { readonly places: readonly string[]; readonly processes: number } {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const spaces = new Set(pids.filter((pid) => fileOf(pid, 'environ').includes(mark)).map(spaceOf))
  spaces.delete(spaceOf('self'))
  spaces.delete(undefined)
  const inside = pids.filter((pid) => spaces.has(spaceOf(pid)))
  return { places: inside.filter((pid) => memoryHas(pid, text)), processes: inside.length }
}

function spaceOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`)
  } catch {
    return undefined
  }
}

function fileOf(pid: string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return ''
  }
}

function memoryHas(pid: string, text: string): boolean {
  if (!existsSync(`/proc/${pid}/mem`)) return false
  const file = openSync(`/proc/${pid}/mem`, 'r')
  try {
    return fileOf(pid, 'maps')
      .split('\n')
      .filter((line) => /^\S+ r/.test(line) && !line.includes('[v'))
      .some((line) => regionOf(file, line).includes(text))
  } finally {
    closeSync(file)
  }
}

function regionOf(file: number, line: string): Buffer {
  const [start = 0, end = 0] = (line.split(' ')[0] ?? '').split('-').map((part) => Number.parseInt(part, 16))
  const bytes = Buffer.alloc(Math.min(end - start, 268_435_456))
  try {
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, start))
  } catch {
    return Buffer.alloc(0)
  }
}
