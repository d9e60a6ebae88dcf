// Two tools as a project has them: a request of an API, and a function that uses it.
import { defineTool, http } from 'gantry'

export const weather = http({
  name: 'weather',
  baseUrl: 'https://weather.example.com/v1',
  auth: { type: 'bearer', token: 'secret:WEATHER_TOKEN' },
})

export const forecast = defineTool({
  namespace: 'weather',
  name: 'forecast',
  description: 'The forecast of a city for tomorrow.',
  effect: 'read',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  backends: [{ kind: 'http', name: 'weather', path: '/cities/{city}/forecast' }],
})

export const umbrella = defineTool({
  namespace: 'weather',
  name: 'umbrella',
  description: 'Whether to take an umbrella.',
  effect: 'read',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  async run({ city }, context) {
    const { output, error } = await context.run('weather:forecast', { city })
    if (error !== undefined) return { take: true, why: `The forecast failed: ${error.code}` }
    const { rain } = output as { rain: number }
    return { take: rain > 0.3, why: `Rain: ${rain}` }
  },
})
