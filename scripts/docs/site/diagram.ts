import { Graph, layout } from '@dagrejs/dagre'
import { escapeHtml } from './highlight.ts'

/**
 * Diagrams from the subset of Mermaid that GitHub renders too: `stateDiagram-v2` and `flowchart`, with `accTitle`,
 * nodes `id[text]`, `id([text])`, `id{text}`, edges `-->` and `-.->` with a label, and `[*]` for start and end.
 */
interface Diagram {
  readonly title: string
  readonly isDown: boolean
  readonly nodes: Map<string, DiagramNode>
  readonly edges: readonly DiagramEdge[]
}

interface DiagramNode {
  readonly label: string
  readonly shape: 'box' | 'round' | 'choice' | 'point'
}

interface DiagramEdge {
  readonly from: string
  readonly to: string
  readonly label: string
  readonly isDashed: boolean
}

const node = String.raw`(\[\*\]|[A-Za-z][\w-]*)(\(\[[^\]]*\]\)|\[[^\]]*\]|\{[^}]*\})?`
const flowEdge = new RegExp(String.raw`^${node}\s*(-->|-\.->)\s*(?:\|([^|]*)\|\s*)?${node}$`)
const stateEdge = new RegExp(String.raw`^${node}\s*(-->)\s*${node}\s*(?::\s*(.*))?$`)
const single = new RegExp(`^${node}$`)

/** Draws a diagram as SVG, whose colours follow the page. Throws for a line that it does not know. */
export function drawDiagram(source: string, id: string): string {
  const diagram = readDiagram(source)
  const graph = new Graph({ multigraph: true })
  graph.setGraph({
    rankdir: diagram.isDown ? 'TB' : 'LR',
    nodesep: 22,
    ranksep: 46,
    edgesep: 18,
    marginx: 8,
    marginy: 8,
  })
  for (const [name, { label, shape }] of diagram.nodes) {
    const { width, height } = sizeOf(label)
    const extra = shape === 'choice' ? 30 : 0
    graph.setNode(
      name,
      shape === 'point' ? { width: 16, height: 16 } : { width: width + 28 + extra, height: height + 18 + extra },
    )
  }
  for (const [index, { from, to, label }] of diagram.edges.entries()) {
    const { width, height } = sizeOf(label, smallLetterWidth)
    graph.setEdge(from, to, label === '' ? {} : { width: width + 6, height: height + 4, labelpos: 'c' }, String(index))
  }
  layout(graph)
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number }
  const edges = diagram.edges.map((edge, index) => drawEdge(edge, graph.edge(edge.from, edge.to, String(index)), id))
  const nodes = [...diagram.nodes].map(([name, each]) => drawNode(each, graph.node(name)))
  const title = escapeHtml(diagram.title)
  return `<figure class="diagram" tabindex="0"><svg viewBox="0 0 ${round(width)} ${round(height)}" width="${round(width)}" height="${round(height)}" role="img" aria-label="${title}">
<defs><marker id="${id}-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" class="arrow"/></marker></defs>
${edges.map(({ line }) => line).join('\n')}
${nodes.join('\n')}
${edges.map(({ text }) => text).join('\n')}
</svg><figcaption>${title}</figcaption></figure>`
}

function readDiagram(source: string): Diagram {
  const [first = '', ...lines] = source
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('%%'))
  const isState = first === 'stateDiagram-v2'
  const [, direction = 'TB'] = /^flowchart (TB|TD|LR)$/.exec(first) ?? []
  if (!isState && !first.startsWith('flowchart '))
    throw new Error(`A diagram begins with ${JSON.stringify(first)}; there are stateDiagram-v2 and flowchart.`)
  const nodes = new Map<string, DiagramNode>()
  const edges: DiagramEdge[] = []
  let title = ''
  let isDown = direction !== 'LR'
  const add = (name: string, form: string | undefined, isEnd = false): string => {
    const key = name === '[*]' ? (isEnd ? 'end' : 'start') : name
    const known = nodes.get(key)
    if (known === undefined || form !== undefined) nodes.set(key, nodeOf(name, form, isState))
    return key
  }
  for (const line of lines) {
    const edge = isState ? stateEdge.exec(line) : flowEdge.exec(line)
    const [, name = '', form] = single.exec(line) ?? []
    const [, word, text = ''] = /^(accTitle|direction)\s*:?\s*(.*)$/.exec(line) ?? []
    if (word === 'accTitle') title = text
    else if (word === 'direction') isDown = text !== 'LR'
    else if (edge !== null && isState) {
      const [, from = '', , , to = '', , label = ''] = edge
      edges.push({ from: add(from, undefined), to: add(to, undefined, true), label, isDashed: false })
    } else if (edge !== null) {
      const [, from = '', fromForm, arrow, label = '', to = '', toForm] = edge
      edges.push({ from: add(from, fromForm), to: add(to, toForm, true), label, isDashed: arrow === '-.->' })
    } else if (name !== '') add(name, form)
    else throw new Error(`A diagram has a line that is not drawn here: ${line}`)
  }
  if (title === '') throw new Error('A diagram needs an accTitle, which screen readers say.')
  return { title, isDown, nodes, edges }
}

function nodeOf(name: string, form: string | undefined, isState: boolean): DiagramNode {
  if (name === '[*]') return { label: '', shape: 'point' }
  const label = (form ?? name)
    .replace(/^\(\[|^\[|^\{/, '')
    .replace(/\]\)$|\]$|\}$/, '')
    .replaceAll('"', '')
  if (form?.startsWith('{')) return { label, shape: 'choice' }
  return { label, shape: isState || form?.startsWith('([') ? 'round' : 'box' }
}

const letterWidth = 7.4
/** Labels of edges have smaller letters. */
const smallLetterWidth = 6.5
const lineHeight = 18

function linesOf(label: string): readonly string[] {
  return label.split(/<br\s*\/?>/)
}

function sizeOf(label: string, letter = letterWidth): { readonly width: number; readonly height: number } {
  const lines = linesOf(label)
  return { width: Math.max(...lines.map((line) => line.length)) * letter, height: lines.length * lineHeight }
}

interface Point {
  readonly x: number
  readonly y: number
}

function drawNode(
  { label, shape }: DiagramNode,
  at: Point & { readonly width: number; readonly height: number },
): string {
  const [x, y] = [at.x - at.width / 2, at.y - at.height / 2]
  if (shape === 'point') return `<circle cx="${round(at.x)}" cy="${round(at.y)}" r="7" class="point"/>`
  const form =
    shape === 'choice'
      ? `<path d="M${round(at.x)} ${round(y)} ${round(x + at.width)} ${round(at.y)} ${round(at.x)} ${round(y + at.height)} ${round(x)} ${round(at.y)}z" class="node"/>`
      : `<rect x="${round(x)}" y="${round(y)}" width="${round(at.width)}" height="${round(at.height)}" rx="${shape === 'round' ? 16 : 5}" class="node"/>`
  return form + textAt(label, at, 'label')
}

function drawEdge(
  { label, isDashed }: DiagramEdge,
  { points, x, y }: { readonly points: readonly Point[]; readonly x?: number; readonly y?: number },
  id: string,
): { readonly line: string; readonly text: string } {
  const style = isDashed ? 'edge dashed' : 'edge'
  const line = `<path d="${curve(points)}" class="${style}" marker-end="url(#${id}-arrow)"/>`
  if (label === '' || x === undefined || y === undefined) return { line, text: '' }
  const { width, height } = sizeOf(label, smallLetterWidth)
  const back = `<rect x="${round(x - width / 2 - 2)}" y="${round(y - height / 2)}" width="${round(width + 4)}" height="${round(height)}" class="behind"/>`
  return { line, text: back + textAt(label, { x, y }, 'edge-label') }
}

/** A smooth line through the points of the layout. */
function curve(points: readonly Point[]): string {
  const [first, ...rest] = points
  if (first === undefined) return ''
  const parts = rest.map((point, index) => {
    const next = rest[index + 1]
    if (next === undefined) return `L${round(point.x)} ${round(point.y)}`
    return `Q${round(point.x)} ${round(point.y)} ${round((point.x + next.x) / 2)} ${round((point.y + next.y) / 2)}`
  })
  return `M${round(first.x)} ${round(first.y)}${parts.join('')}`
}

function textAt(label: string, { x, y }: Point, style: string): string {
  const lines = linesOf(label)
  const top = y - ((lines.length - 1) * lineHeight) / 2
  const spans = lines.map(
    (line, index) => `<tspan x="${round(x)}" y="${round(top + index * lineHeight)}">${escapeHtml(line)}</tspan>`,
  )
  return `<text class="${style}">${spans.join('')}</text>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
