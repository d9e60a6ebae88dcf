import { spawn } from 'node:child_process'
import { createWriteStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'

/** Requests to an engine that the driver under test has no part in. */
export async function api(socket: string, method: string, path: string, body?: object): Promise<unknown> {
  const json = body === undefined ? undefined : JSON.stringify(body)
  const headers = json === undefined ? {} : { 'content-type': 'application/json' }
  const answer = await answered(
    request({ socketPath: socket, method, path: `/v1.41${path}`, headers, agent: false }),
    json,
  )
  let text = ''
  for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) text += piece
  if ((answer.statusCode ?? 0) >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`)
  return text.startsWith('{') || text.startsWith('[') ? JSON.parse(text.split('\n')[0] ?? '') : text
}

function answered(ask: ClientRequest, body?: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    ask.on('response', resolve)
    ask.on('error', reject)
    ask.end(body)
  })
}

/** Names of the containers of sandboxes, running or not. */
export async function containers(socket: string): Promise<readonly string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: ['dev.gantry.owner'] }))
  const found = (await api(socket, 'GET', `/containers/json?all=1&filters=${filters}`)) as { Names: string[] }[]
  return found.flatMap(({ Names }) => Names.map((name) => name.replace('/gantry-', '')))
}

/** Waits until none of these sandboxes, or none at all, has a container, and answers with those that still have one after `mostMs`. */
export async function containersLeft(
  socket: string,
  ids?: readonly string[],
  mostMs = 30_000,
): Promise<readonly string[]> {
  const until = performance.now() + mostMs
  for (;;) {
    const all = await containers(socket)
    const left = all.filter((id) => ids?.includes(id) ?? true)
    if (left.length === 0 || performance.now() > until) return left
    await pause(50)
  }
}

/** Copies an image from one engine to another. */
export async function copyImage(from: string, to: string, name: string): Promise<void> {
  const path = `/v1.41/images/${encodeURIComponent(name)}/get`
  const archive = await answered(request({ socketPath: from, path, agent: false }))
  const load = request({ socketPath: to, method: 'POST', path: '/v1.41/images/load?quiet=1', agent: false })
  load.setHeader('content-type', 'application/x-tar')
  const done = new Promise<IncomingMessage>((resolve, reject) => {
    load.on('response', resolve)
    load.on('error', reject)
  })
  await pipeline(archive, load)
  const answer = await done
  answer.resume()
  if (answer.statusCode !== 200) throw new Error(`The image was not loaded: ${answer.statusCode}.`)
}

/** Writes images into one archive, where the layers that they share are once. */
export async function saveImages(socket: string, names: readonly string[], file: string): Promise<void> {
  const query = names.map((name) => `names=${encodeURIComponent(name)}`).join('&')
  const archive = await answered(request({ socketPath: socket, path: `/v1.41/images/get?${query}`, agent: false }))
  if (archive.statusCode !== 200) throw new Error(`The images were not saved: ${archive.statusCode}.`)
  await pipeline(archive, createWriteStream(file))
}

/** Makes an image from that of sandboxes, by instructions of a Dockerfile and with the files of a folder in addition to. */
export async function commitImage(
  socket: string,
  repository: string,
  instructions: readonly string[],
  folder?: string,
): Promise<void> {
  const body = { Image: 'gantry/sandbox:standard', Cmd: ['/bin/true'] }
  const { Id } = (await api(socket, 'POST', '/containers/create', body)) as { Id: string }
  try {
    if (folder !== undefined) await putFiles(socket, Id, folder)
    const changes = instructions.map((one) => `&changes=${encodeURIComponent(one)}`).join('')
    await api(socket, 'POST', `/commit?container=${Id}&repo=${encodeURIComponent(repository)}${changes}`, {})
  } finally {
    await api(socket, 'DELETE', `/containers/${Id}?v=1`)
  }
}

/** Copies the files of a folder into the root of a container that does not run. */
async function putFiles(socket: string, id: string, folder: string): Promise<void> {
  const tar = spawn('tar', ['-C', folder, '--owner=0', '--group=0', '-c', '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const put = request({
    socketPath: socket,
    method: 'PUT',
    path: `/v1.41/containers/${id}/archive?path=%2F`,
    agent: false,
  })
  put.setHeader('content-type', 'application/x-tar')
  const done = new Promise<IncomingMessage>((resolve, reject) => {
    put.on('response', resolve)
    put.on('error', reject)
  })
  await pipeline(tar.stdout, put)
  const answer = await done
  answer.resume()
  if (answer.statusCode !== 200) throw new Error(`The files were not copied: ${answer.statusCode}.`)
}

/** Imports an image of one file, which was not made by `gantry runtime build`. */
export async function importForeign(
  socket: string,
  repository: string,
  changes: readonly string[] = [],
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-foreign-'))
  try {
    writeFileSync(join(folder, 'hello'), repository)
    const tar = spawn('tar', ['-C', folder, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
    const more = changes.map((change) => `&changes=${encodeURIComponent(change)}`).join('')
    const path = `/v1.41/images/create?fromSrc=-&repo=${encodeURIComponent(repository)}${more}`
    const load = request({ socketPath: socket, method: 'POST', path, agent: false })
    load.setHeader('content-type', 'application/x-tar')
    const done = new Promise<IncomingMessage>((resolve, reject) => {
      load.on('response', resolve)
      load.on('error', reject)
    })
    await pipeline(tar.stdout, load)
    const answer = await done
    let text = ''
    for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) text += piece
    if (answer.statusCode !== 200 || text.includes('"error"')) throw new Error(`The image was not imported: ${text}`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
