import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, extname, join } from 'node:path'
import { build } from 'esbuild'
import { assets, folderOf, makeSite } from './docs/site/site.ts'

/**
 * `build` writes the site of `docs/` to build/site; `serve [--port N]` also serves it on loopback until it is stopped.
 * Fails for a page that is in no section, for a broken link, and for a diagram that cannot be drawn.
 */
const root = dirname(import.meta.dirname)
const folder = folderOf(root)
const [command = 'build', ...rest] = process.argv.slice(2)

const started = performance.now()
const { files, pages, faults } = makeSite(root)
rmSync(folder, { recursive: true, force: true })
for (const [file, text] of files) {
  mkdirSync(dirname(join(folder, file)), { recursive: true })
  writeFileSync(join(folder, file), text)
}
copyFileSync(join(assets, 'browser', 'style.css'), join(folder, 'style.css'))
await build({
  entryPoints: { site: join(assets, 'browser', 'client.ts'), theme: join(assets, 'browser', 'theme.ts') },
  outdir: folder,
  bundle: true,
  format: 'iife',
  platform: 'browser',
  target: 'es2022',
  minify: true,
  legalComments: 'none',
  logLevel: 'error',
})
for (const fault of faults) console.error(fault)
const seconds = ((performance.now() - started) / 1_000).toFixed(1)
console.log(
  `${folder}: ${pages} pages, ${files.size} files in ${seconds} s${faults.length === 0 ? '.' : `; ${faults.length} wrong.`}`,
)
if (faults.length > 0 && command === 'build') process.exitCode = 1
if (command === 'serve') serve(Number(rest[rest.indexOf('--port') + 1] ?? 0) || 0)

function serve(port: number): void {
  const types: { readonly [extension: string]: string } = {
    '.html': 'text/html; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.json': 'application/json; charset=utf-8',
  }
  const server = createServer((request, response) => {
    const path = decodeSafely(new URL(request.url ?? '/', 'http://localhost').pathname)
    const file = path.endsWith('/') ? `${path}index.html` : path
    // Only a file that was written is sent, so that no path leads out of the folder.
    const known = files.has(file.slice(1)) || ['/style.css', '/site.js', '/theme.js'].includes(file)
    if (!known || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(known ? 405 : 404, { 'content-type': 'text/plain' }).end('There is no such page.\n')
      return
    }
    const headers = { 'content-type': types[extname(file)] ?? 'text/plain', 'x-content-type-options': 'nosniff' }
    response.writeHead(200, headers).end(request.method === 'HEAD' ? '' : readFileSync(join(folder, file)))
  })
  server.listen(port, '127.0.0.1', () => {
    const address = server.address()
    if (typeof address === 'object' && address !== null) console.log(`http://127.0.0.1:${address.port}/`)
  })
}

function decodeSafely(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return ''
  }
}
