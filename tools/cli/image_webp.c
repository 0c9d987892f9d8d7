/* Reads WebP files, or the first frame of an animation, with libwebp. */
#include <stdio.h>
#include <string.h>

#include "image_reader.h"
#include "orientation.h"

#if RVIT_HAVE_WEBP

#include <webp/decode.h>
#include <webp/demux.h>

static int orientation_of(const WebPDemuxer *file)
{
    WebPChunkIterator exif = {0}, xmp = {0};
    const bool has_exif = WebPDemuxGetChunk(file, "EXIF", 1, &exif), has_xmp = WebPDemuxGetChunk(file, "XMP ", 1, &xmp);
    const int orientation =
        orientation_of_metadata(exif.chunk.bytes, has_exif ? exif.chunk.size : 0, xmp.chunk.bytes, has_xmp ? xmp.chunk.size : 0);
    WebPDemuxReleaseChunkIterator(&exif);
    WebPDemuxReleaseChunkIterator(&xmp);
    return orientation;
}

/* A frame may cover part of the image. The rest is transparent and becomes black. */
static bool read_frame(struct image_reader *input, const WebPIterator *frame)
{
    struct image *out = &input->result;
    const size_t stride = 3 * (size_t)out->width, size = stride * (size_t)out->height;
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return image_fail(input->error, "libwebp has a different version than its headers");
    VP8StatusCode status = WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &config.input);
    if (status == VP8_STATUS_OK &&
        (frame->width != config.input.width || frame->height != config.input.height || frame->x_offset < 0 || frame->y_offset < 0 ||
         frame->width > out->width - frame->x_offset || frame->height > out->height - frame->y_offset))
        status = VP8_STATUS_BITSTREAM_ERROR;
    if (status == VP8_STATUS_OK) {
        if (frame->width < out->width || frame->height < out->height)
            memset(out->pixels, 0, size);
        const size_t start = stride * (size_t)frame->y_offset + 3 * (size_t)frame->x_offset;
        config.output.colorspace = MODE_RGB;
        config.output.is_external_memory = 1;
        config.output.u.RGBA = (WebPRGBABuffer){out->pixels + start, (int)stride, size - start};
        status = WebPDecode(frame->fragment.bytes, frame->fragment.size, &config);
    }
    if (status == VP8_STATUS_OUT_OF_MEMORY)
        return image_fail(input->error, "out of memory");
    return status == VP8_STATUS_OK || image_fail(input->error, "broken WebP: its pixels cannot be decoded");
}

bool image_read_webp(struct image_reader *input)
{
    const WebPData data = {input->data, input->size};
    WebPDemuxer *file = WebPDemux(&data);
    if (!file)
        return image_fail(input->error, "broken WebP: it is truncated or its chunks are inconsistent");
    WebPIterator frame = {0};
    const uint32_t width = WebPDemuxGetI(file, WEBP_FF_CANVAS_WIDTH), height = WebPDemuxGetI(file, WEBP_FF_CANVAS_HEIGHT);
    input->orientation = orientation_of(file);
    bool ok = image_reader_create(input, (int32_t)width, (int32_t)height);
    if (ok && !input->size_only) {
        ok = WebPDemuxGetFrame(file, 1, &frame) ? read_frame(input, &frame) : image_fail(input->error, "broken WebP: no image");
        WebPDemuxReleaseIterator(&frame);
    }
    WebPDemuxDelete(file);
    return ok;
}

#else

bool image_read_webp(struct image_reader *input)
{
    return image_fail(input->error, "WebP is not supported: raggedvit was built without libwebp and libwebpdemux");
}

#endif
